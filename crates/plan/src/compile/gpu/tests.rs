use thalweg_device::{Device, KernelError};
use thalweg_graph::{Attr, Graph, Output};
use thalweg_ops::{ArrayOps, LinalgOps, MathOps, RandomOps, SourceOps, StateOps};
use thalweg_tensor::{DType, Tensor};

use crate::gpu_program::{Argument, Commands, ComputedBy, GpuCommand, GpuPlace, MemberTable};
use crate::plan::Plan;
use crate::program::{Action, Home, Program};
use crate::request::Fetch;
use crate::testing::{Planner, graph};

/// The plan that computes `fetches`, with every node on the GPU.
fn on_gpu(fetches: &[Output<'_>], feeds: &[Output<'_>]) -> Plan {
    let planner = Planner::with_gpu();
    let data = fetches[0].graph().snapshot();
    let fetches: Vec<Fetch> = fetches.iter().map(|o| Fetch::Value(o.id())).collect();
    let devices = vec![1; data.len()];
    planner.plan_of(&data, &fetches, feeds, &devices).unwrap()
}

/// A word for each instruction.
fn actions(program: &Program) -> Vec<&'static str> {
    let word = |action: &Action| match action {
        Action::Stage => "stage",
        Action::Segment(_) => "segment",
        Action::Send { .. } => "send",
        Action::Receive => "receive",
        Action::Check(_) => "check",
        Action::Wait => "wait",
        Action::IsInitialized { .. } => "initialized",
        Action::Loop { .. } => "loop",
        _ => "other",
    };
    program
        .instructions
        .iter()
        .map(|i| word(&i.action))
        .collect()
}

/// A word for each command of a segment.
fn commands(commands: &Commands, segment: usize) -> Vec<&'static str> {
    let word = |command: &GpuCommand| match command {
        GpuCommand::Launch { .. } => "launch",
        GpuCommand::CopyIn { .. } => "in",
        GpuCommand::CopyOut { .. } => "out",
        GpuCommand::Copy { .. } => "copy",
        GpuCommand::Ones { .. } => "ones",
        _ => "other",
    };
    let all = commands.segments[segment].commands.iter();
    all.map(|c| word(&c.command)).collect()
}

fn gpu(plan: &Plan) -> (&Program, &Commands) {
    let program = plan.programs.iter().find(|p| p.gpu.is_some()).unwrap();
    (program, program.gpu.as_ref().unwrap())
}

fn small(g: &Graph) -> Output<'_> {
    g.placeholder("x", DType::F32, [64])
}

#[test]
fn feeds_are_copied_in_first_and_fetches_out_last_in_one_segment() {
    let g = graph();
    let x = small(&g);
    let plan = on_gpu(&[x.tanh()], &[x]);
    let (program, of) = gpu(&plan);
    assert_eq!(actions(program), ["stage", "segment", "wait"]);
    assert_eq!(commands(of, 0), ["in", "launch", "out"]);
    // A queue runs its commands in turn: so does the host.
    assert_eq!(program.waits, [0, 1, 1]);
    // The staging memory holds the feed and the fetch apart, each at a multiple of 256 bytes.
    assert_eq!((of.staging, of.feeds.as_slice()), (512, &[(0, 0)][..]));
    let fetch = plan.fetches[0].as_ref().unwrap();
    assert!(matches!(
        program.slots[fetch.slot as usize].home,
        Home::Staged(256)
    ));
}

#[test]
fn a_constant_is_copied_to_the_gpu_once_for_all_its_users() {
    let g = graph();
    let x = small(&g);
    let c = g.constant(Tensor::new(&[64], &[0.5f32; 64]).unwrap());
    let plan = on_gpu(&[(x + c) * c], &[x]);
    let (_, of) = gpu(&plan);
    let offsets: Vec<usize> = of.constants.iter().map(|(offset, _)| *offset).collect();
    // Behind the feed.
    assert_eq!((offsets, of.fixed), (vec![256], 512));
}

#[test]
fn an_elementwise_kernel_writes_in_place_at_the_last_use() {
    let g = graph();
    let x = small(&g);
    let a = x.tanh();
    for (fetches, arena) in [
        (vec![a.square().exp()], 256),
        // Both are fetched.
        (vec![a, a.square()], 512),
    ] {
        assert_eq!(gpu(&on_gpu(&fetches, &[x])).0.arena, arena);
    }
}

#[test]
fn a_variable_is_read_where_it_lies_unless_it_is_updated_before_the_last_use() {
    let g = graph();
    let w = g.variable("w", Tensor::new(&[64], &[0.5f32; 64]).unwrap());
    let read = w.read();
    let tanh = read.tanh();
    let planner = Planner::with_gpu();
    let plan = |fetches: &[Fetch]| {
        let data = g.snapshot();
        let devices = vec![1; data.len()];
        planner.plan_of(&data, fetches, &[], &devices).unwrap()
    };
    let read_only = plan(&[Fetch::Value(tanh.id())]);
    let (_, of) = gpu(&read_only);
    assert_eq!(commands(of, 0), ["launch", "out"]);
    assert_eq!(
        (of.variables[0].name(), of.segments[0].variables.len()),
        ("w", 1)
    );
    let add = w.assign_add(tanh);
    let late = g.control_dependencies([add], || read.square());
    let updated = plan(&[Fetch::Value(late.id())]);
    let (_, of) = gpu(&updated);
    assert_eq!(commands(of, 0)[0], "copy");
    let assigns: Vec<bool> = of.segments[0].variables.iter().map(|v| v.assigns).collect();
    assert_eq!(assigns, [false, false]);
}

#[test]
fn an_assignment_gives_a_variable_its_value() {
    let g = graph();
    let w = g.variable("w", [1.0f32, 2.0]);
    let data = g.snapshot();
    let planner = Planner::with_gpu();
    let init = [Fetch::Run(w.initializer().id())];
    let plan = planner
        .plan_of(&data, &init, &[], &vec![1; data.len()])
        .unwrap();
    let (_, of) = gpu(&plan);
    let assigns: Vec<bool> = of.segments[0].variables.iter().map(|v| v.assigns).collect();
    assert_eq!(assigns, [true]);
}

#[test]
fn the_host_answers_whether_a_variable_has_a_value() {
    let g = graph();
    let w = g.variable("w", [1.0f32, 2.0]);
    let plan = on_gpu(&[w.is_initialized()], &[]);
    let (program, of) = gpu(&plan);
    assert_eq!(
        actions(program),
        ["stage", "segment", "initialized", "segment", "wait"]
    );
    assert_eq!(commands(of, 1), ["in", "out"]);
}

/// Rows of a matrix by number, where a number may be out of range.
fn rows<'g>(x: Output<'g>, indices: Output<'g>) -> Output<'g> {
    let g = x.graph();
    let node = g.op("GatherV2").input(x).input(indices);
    node.input(g.constant(0i32)).output()
}

#[test]
fn rejected_elements_are_looked_for_before_anything_leaves_the_gpu_or_changes() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [4, 64]);
    let i = g.placeholder("i", DType::I32, [2]);
    let picked = rows(x, i);
    let plan = on_gpu(&[picked], &[x, i]);
    let (program, of) = gpu(&plan);
    assert_eq!(actions(program), ["stage", "segment", "check", "wait"]);
    let first = commands(of, 0);
    // Statuses are set before all else, and copied out after the launch, as is the fetch.
    assert_eq!((first[0], first.last()), ("ones", Some(&"out")));
    assert_eq!((of.watched.len(), of.checks.len()), (1, 1));
    assert_eq!((of.checks[0].first, of.checks[0].last), (0, 1));

    let w = g.variable("w", Tensor::new(&[2, 64], &[0.5f32; 128]).unwrap());
    let add = w.assign_add(picked);
    let data = g.snapshot();
    let planner = Planner::with_gpu();
    let fetches = [Fetch::Run(add.id())];
    let plan = planner
        .plan_of(&data, &fetches, &[x, i], &vec![1; data.len()])
        .unwrap();
    let (program, _) = gpu(&plan);
    // The update comes in a segment after the check.
    assert_eq!(
        actions(program),
        ["stage", "segment", "check", "segment", "wait"]
    );
}

#[test]
fn a_random_op_draws_from_a_counter_in_the_memory_of_the_gpu() {
    let g = graph();
    let noise = g.random_uniform(Tensor::vector(&[64i32]), 0.0, 1.0, DType::F32, Some(1));
    let plan = on_gpu(&[noise], &[]);
    let (_, of) = gpu(&plan);
    assert_eq!(of.counters.len(), 1);
    let places = of.segments[0]
        .commands
        .iter()
        .filter_map(|c| match &c.command {
            GpuCommand::Launch { arguments, .. } => Some(arguments),
            _ => None,
        });
    let counter = |a: &Argument| matches!(a, Argument::Address(GpuPlace::Counter(0)));
    assert!(places.flatten().any(counter));
}

#[test]
fn a_product_is_computed_by_a_kernel_where_there_is_no_library() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [64, 64]);
    let y = x.matmul(x).named("y");
    let plan = on_gpu(&[y], &[x]);
    let (program, of) = gpu(&plan);
    let by: Vec<&ComputedBy> = of.computed_by.values().collect();
    assert_eq!(
        by,
        [&ComputedBy::OwnKernel("there are no libraries".to_owned())]
    );
    let text = "y (MatMul) is computed by a kernel of our own: there are no libraries\n";
    assert!(program.to_text().ends_with(text), "{}", program.to_text());
}

#[test]
fn a_value_goes_over_the_host_to_a_cpu_and_directly_to_another_gpu() {
    let g = graph();
    let x = small(&g);
    let a = x.tanh();
    let b = a.square();
    let homes = |plan: &Plan| -> Vec<&'static str> {
        let of = |p: &Program| {
            let ends = p.instructions.iter().filter_map(|i| match i.action {
                Action::Send { .. } => Some(i.inputs[0]),
                Action::Receive => Some(i.outputs[0]),
                _ => None,
            });
            let words = ends.map(|slot| match p.slots[slot as usize].home {
                Home::Staged(_) => "staged",
                Home::OnGpu(_) => "on a GPU",
                Home::Arena(_) => "arena",
                _ => "other",
            });
            words.collect::<Vec<_>>()
        };
        plan.programs.iter().flat_map(of).collect()
    };
    let over_host = Planner::with_gpu().plan_on(&[b], &[x], &[(a, 1)]).unwrap();
    assert_eq!(homes(&over_host), ["arena", "staged"]);
    let mut devices = Vec::new();
    for _ in 0..2 {
        devices.push(Device::Gpu(crate::testing::idle_gpu()));
    }
    let between = Planner::on(devices).plan_on(&[b], &[x], &[(a, 1)]).unwrap();
    assert_eq!(homes(&between), ["on a GPU", "on a GPU"]);
}

#[test]
fn nodes_that_a_gpu_does_not_run_are_moved_to_the_host_with_the_reason() {
    type Build = for<'g> fn(&'g Graph, Output<'g>) -> Output<'g>;
    let cases: [(&str, Build); 5] = [
        ("there is no kernel for it on a GPU", |g, _| {
            let text = g.constant(Tensor::from("text"));
            g.op("StringLength")
                .input(g.op("StringJoin").inputs([text, text]).output())
                .output()
        }),
        (
            "it is about shapes or indices, which the host has",
            |g, x| {
                let dims = g.placeholder("dims", DType::I32, [2]);
                let late = g.op("Reshape").input(x).input(dims).output();
                g.op("Shape").input(late).output()
            },
        ),
        (
            "an input that shapes it is known only when it runs",
            |g, x| {
                let dims = g.placeholder("dims", DType::I32, [2]);
                g.op("Reshape").input(x).input(dims).output()
            },
        ),
        ("its shapes are known only when it runs", |g, x| {
            let dims = g.placeholder("dims", DType::I32, [2]);
            g.device("/cpu:0", || g.op("Reshape").input(x).input(dims).output())
                .tanh()
        }),
        ("there is no kernel for it on a GPU", |g, x| {
            g.op("Where").input(x).output()
        }),
    ];
    for (why, build) in cases {
        let g = graph();
        let x = small(&g);
        let y = build(&g, x);
        assert!(g.errors().is_empty(), "{:?}", g.errors());
        let feeds: Vec<Output<'_>> = ["x", "dims"]
            .iter()
            .filter_map(|n| Some(g.find(n)?.output(0)))
            .collect();
        let plan = on_gpu(&[y], &feeds);
        let last = plan.moved.last();
        assert_eq!(last.map(|m| m.why.as_str()), Some(why), "{:?}", plan.moved);
        let from = "/job:localhost/replica:0/task:0/device:GPU:0";
        assert!(plan.moved.iter().all(|m| m.from == from));
    }
}

#[test]
fn a_node_whose_variable_is_on_a_gpu_cannot_be_moved() {
    let g = graph();
    let w = g
        .op("VarHandleOp")
        .attr("dtype", DType::F32)
        .attr("shape", Attr::Shape([2].into()));
    let w = w.name("w").output();
    let sparse = g.op("ResourceScatterUpdate").input(w);
    let indices = g.placeholder("i", DType::I32, [-1]);
    let node = sparse.input(indices).input(g.constant(1.0f32)).build();
    let data = g.snapshot();
    let fetches = [Fetch::Run(node.id())];
    let planner = Planner::with_gpu();
    let error = planner
        .plan_of(&data, &fetches, &[indices], &vec![1; data.len()])
        .err();
    match error {
        Some(crate::SessionError::Kernel {
            source: KernelError::Invalid(text),
            ..
        }) => {
            assert!(
                text.ends_with("and its variable 'w' is on a GPU: place that on a CPU"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// The members of each launch of the first segment that fetches the casts of so many variables of 16 elements.
fn members_of_casts(count: usize) -> Vec<usize> {
    let g = graph();
    let value = Tensor::new(&[16], &[0.5f32; 16]).unwrap();
    let variables = (0..count).map(|i| g.variable(&format!("v{i}"), value.clone()));
    let casts: Vec<Output<'_>> = variables.map(|v| v.read().cast(DType::F16)).collect();
    let data = g.snapshot();
    let fetches: Vec<Fetch> = casts.iter().map(|o| Fetch::Value(o.id())).collect();
    let planner = Planner::with_gpu().optimised();
    let devices = vec![1; data.len()];
    let plan = planner.plan_of(&data, &fetches, &[], &devices).unwrap();
    let (_, of) = gpu(&plan);
    let all = of.segments[0].commands.iter();
    let launches = all.filter(|c| matches!(c.command, GpuCommand::Launch { .. }));
    launches.map(|c| 1 + c.others.len()).collect()
}

#[test]
fn a_multi_tensor_launch_has_at_most_a_member_for_each_thread_of_a_block() {
    assert_eq!(members_of_casts(1), [1]);
    assert_eq!(members_of_casts(256), [256]);
    assert_eq!(members_of_casts(300), [256, 44]);
}

#[test]
fn nodes_do_not_wait_beyond_their_number() {
    // 1,024 may wait.
    assert_eq!(members_of_casts(1030), [256, 256, 256, 256, 6]);
}

#[test]
fn a_table_has_the_blocks_and_the_arguments_of_its_members() {
    let table = MemberTable {
        offset: 0,
        starts: vec![0, 2, 5],
        arguments: [3u32, 4]
            .map(|n| {
                let n = Argument::Value(n.to_ne_bytes().into_iter().collect());
                [Argument::Address(GpuPlace::Variable(1)), n]
                    .into_iter()
                    .collect()
            })
            .into(),
    };
    let words = table.words(|place| match place {
        GpuPlace::Variable(n) => 100 + n as u64,
        _ => 0,
    });
    assert_eq!(words, [0, 2, 5, 101, 3, 101, 4]);
}
