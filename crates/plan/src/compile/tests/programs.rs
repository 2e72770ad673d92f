//! Programs of small graphs: memory, slots, late shapes, errors.

use std::sync::Arc;

use thalweg_device::Op;
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, arg_of};
use thalweg_ops::{LinalgOps, MathOps, SourceOps, StateOps};
use thalweg_tensor::{DType, Shape};

use super::super::*;
use crate::program::Home;
use crate::testing::{Planner, bare_node, bare_op, first, graph, ops};

/// The home of the value that a node of this name makes.
fn home<'p>(program: &'p Program, name: &str) -> &'p Home {
    let mut all = program.instructions.iter();
    let instruction = all.find(|i| program.graph.node(i.node).name == name);
    &program.slots[instruction.unwrap().outputs[0] as usize].home
}

fn offset(program: &Program, name: &str) -> usize {
    match home(program, name) {
        Home::Arena(offset) => *offset,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_kernel_writes_in_place_of_an_input_only_at_its_last_use() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [64]);
    let a = x.tanh().named("a");
    let b = a.sin().named("b");
    let c = a.cos().named("c");
    let plan = Planner::cpus(&[1]).plan(&[b, c], &[x]).unwrap();
    let program = &plan.programs[0];
    // The second user may take the memory that the first one must leave.
    assert_ne!(offset(program, "b"), offset(program, "a"));
    assert_eq!(offset(program, "c"), offset(program, "a"));
    let plan = Planner::cpus(&[1]).plan(&[a, c], &[x]).unwrap();
    // A fetched value stays.
    assert_ne!(
        offset(&plan.programs[0], "c"),
        offset(&plan.programs[0], "a")
    );
}

#[test]
fn with_separate_memory_no_value_takes_the_place_of_another() {
    let mut planner = Planner::cpus(&[1]);
    let g = graph();
    let x = g.placeholder("x", DType::F32, [64]);
    let y = x.tanh().sin().cos().tanh();
    let bytes = |planner: &Planner| planner.plan(&[y], &[x]).unwrap().arena_bytes();
    assert_eq!(bytes(&planner), 256);
    planner.separate_memory = true;
    assert_eq!(bytes(&planner), 4 * 256);
}

#[test]
fn a_view_has_the_slot_of_its_input_and_no_instruction() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [4]);
    let y = x.tanh();
    let flat = g
        .op("Reshape")
        .input(y)
        .input(g.constant([2i32, 2]))
        .output();
    let plan = Planner::cpus(&[1]).plan(&[y, flat], &[x]).unwrap();
    assert_eq!(ops(&plan.programs[0]), ["Tanh"]);
    let fetches: Vec<_> = plan.fetches.iter().flatten().collect();
    assert_eq!(fetches[0].slot, fetches[1].slot);
    assert_eq!(fetches[1].dims.as_deref(), Some(&[2, 2][..]));
}

#[test]
fn constants_and_feeds_need_no_instruction_and_no_arena() {
    let g = graph();
    let (x, c) = (g.placeholder("x", DType::F32, [2]), g.constant([1.0f32]));
    let plan = Planner::cpus(&[1]).plan(&[x, c], &[x]).unwrap();
    assert_eq!((plan.programs[0].len(), plan.arena_bytes()), (0, 0));
    let slot = |fetch: usize| {
        let fetch = plan.fetches[fetch].as_ref().unwrap();
        &plan.slot(fetch.program, fetch.slot).home
    };
    assert!(matches!(slot(0), Home::Held) && matches!(slot(1), Home::Constant(_)));
}

#[test]
fn a_feed_that_nothing_needs_fills_no_slot() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [2]);
    let unused = g.placeholder("unused", DType::F32, [2]);
    let plan = Planner::cpus(&[1]).plan(&[x.tanh()], &[unused, x]).unwrap();
    let slots: Vec<usize> = plan.feeds.iter().map(|f| f.len()).collect();
    assert_eq!(slots, [0, 1]);
}

#[test]
fn a_node_that_is_only_run_has_no_fetched_slot() {
    let g = graph();
    let w = g.variable("w", 1.0f32);
    let add = w.assign_add(2.0f32);
    let fetches = [Fetch::Run(add.id()), Fetch::Value(w.read().id())];
    let data = g.snapshot();
    let plan = Planner::cpus(&[1]).plan_of(&data, &fetches, &[], &vec![0; data.len()]);
    let plan = plan.unwrap();
    assert_eq!(
        plan.fetches.iter().map(Option::is_some).collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn a_value_that_was_read_is_released_before_its_variable_is_updated() {
    let g = graph();
    let w = g.variable("w", [1.0f32, 2.0]);
    let read = w.read();
    let square = read.square().named("square");
    let add = w.assign_add([1.0f32, 1.0]);
    let data = g.snapshot();
    let fetches = [Fetch::Value(square.id()), Fetch::Run(add.id())];
    let plan = Planner::cpus(&[1]).plan_of(&data, &fetches, &[], &vec![0; data.len()]);
    let plan = plan.unwrap();
    let program = &plan.programs[0];
    assert_eq!(
        ops(program),
        ["ReadVariableOp", "Square", "AssignAddVariableOp"]
    );
    let held = program.instructions[0].outputs[0];
    assert_eq!(program.instructions[2].release[..], [held]);
    assert!(program.instructions[1].release.is_empty());
    // The update waits for all users of the old value.
    assert_eq!(program.waits, [0, 1, 2]);
    assert_eq!(
        program.instructions[2].variables[0]
            .as_ref()
            .unwrap()
            .name(),
        "w"
    );
}

#[test]
fn shapes_that_are_known_only_at_run_time_are_prepared_late() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [4]);
    let dims = g.placeholder("dims", DType::I32, [2]);
    let y = g.op("Reshape").input(x).input(dims).output();
    let z = y.tanh().named("z");
    let plan = Planner::cpus(&[1]).plan(&[z], &[x, dims]).unwrap();
    let program = &plan.programs[0];
    assert!(
        program
            .instructions
            .iter()
            .all(|i| matches!(i.action, Action::Late { .. }))
    );
    assert!(matches!(home(program, "z"), Home::Held));
    assert!(plan.fetches[0].as_ref().unwrap().dims.is_none());
}

#[test]
fn constants_are_folded_and_equal_nodes_shared_only_where_that_is_asked_for() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [2]);
    let c = g.constant([1.0f32, 2.0]).exp();
    let y = (x + c) * (x + c);
    let plan = Planner::cpus(&[1]).plan(&[y], &[x]).unwrap();
    assert_eq!(ops(&plan.programs[0]), ["Exp", "AddV2", "AddV2", "Mul"]);
    let plan = Planner::cpus(&[1]).optimised().plan(&[y], &[x]).unwrap();
    assert_eq!(ops(&plan.programs[0]), ["AddV2", "Mul"]);
}

#[test]
fn a_large_fetched_value_lies_in_a_tensor_of_its_own() {
    for (bytes, own) in [(256 << 10, true), (255 << 10, false)] {
        let g = graph();
        let x = g.placeholder("x", DType::F32, Shape::known(&[bytes / 4]));
        let y = x.tanh().named("y");
        let plan = Planner::cpus(&[1]).plan(&[y], &[x]).unwrap();
        let found = home(&plan.programs[0], "y");
        assert_eq!(matches!(found, Home::Own), own, "{bytes}: {found:?}");
    }
}

#[test]
fn a_large_value_for_another_task_lies_in_a_tensor_of_its_own() {
    for (len, sent) in [(64 << 10, true), (64, false)] {
        let g = graph();
        let x = g.placeholder("x", DType::F32, Shape::known(&[len / 4]));
        let y = x.tanh().named("y");
        let planner = Planner::cpus(&[1]);
        let data = g.snapshot();
        let request = Request {
            feeds: &[(x.id(), x.fact())],
            fetches: &[Fetch::Value(y.id())],
            devices: &vec![0; data.len()],
            variables: &[],
        };
        let small = simplified(&data, &request, planner.context()).unwrap();
        let plan = compile_partial(small, planner.context()).unwrap();
        let program = &plan.programs[0];
        assert_eq!(matches!(home(program, "y"), Home::Own), sent, "{len}");
        // The feed arrives while the step runs, and the value leaves.
        assert_eq!(plan.arrivals.len(), 1);
        assert_eq!(
            (plan.arrivals[0].channel, plan.waits),
            (client_channel(0), true)
        );
        let last = &program.instructions.last().unwrap().action;
        assert!(matches!(last, Action::SendRemote { channel } if *channel == client_channel(1)));
    }
}

#[test]
fn a_handle_cannot_be_sent_to_another_device() {
    let g = graph();
    let w = g.variable("w", 1.0f32);
    let read = w.read().named("read");
    let error = Planner::cpus(&[1, 1])
        .plan_on(&[read], &[], &[(read, 1)])
        .err();
    let error = error.unwrap().to_string();
    assert!(
        error.contains("it sends the handle of a variable, which does not leave its device"),
        "{error}"
    );
}

#[test]
fn a_node_without_a_kernel_for_its_dtypes_is_named_with_them() {
    static ODD: Op = Op {
        def: OpDef {
            outputs: &[arg_of("y", DType::F32)],
            ..bare_op("Odd", Effect::Stateful)
        },
        kernels: &[],
    };
    let mut data = GraphData::new();
    let odd = data.push(bare_node(&ODD.def, &[], &[]));
    let fetches = [Fetch::Value(first(odd))];
    let mut planner = Planner::cpus(&[1]);
    let kernels = Arc::make_mut(&mut planner.machine.kernels);
    kernels.insert("Odd", &ODD);
    let error = planner.plan_of(&data, &fetches, &[], &[0]).err().unwrap();
    assert_eq!(
        error.to_string(),
        "node 'Odd' (Odd), made at a test: there is no kernel for it on a CPU, with f32: Cast its inputs"
    );
}

#[test]
fn a_value_that_no_memory_holds_is_an_error_of_its_node() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [1i64 << 31, 1]);
    let y = g.placeholder("y", DType::F32, [1, 1i64 << 31]);
    let product = x.matmul(y).named("product");
    let error = Planner::cpus(&[1]).plan(&[product], &[x, y]).err().unwrap();
    assert!(
        matches!(&error, SessionError::Memory { node, .. } if node == "product"),
        "{error}"
    );
}

#[test]
fn nodes_that_wait_for_each_other_are_an_error() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [2]);
    let (a, b) = (x.tanh().named("a"), x.sin().named("b"));
    let planner = Planner::cpus(&[1]);
    let data = g.snapshot();
    let request = Request {
        feeds: &[(x.id(), x.fact())],
        fetches: &[Fetch::Value(a.id()), Fetch::Value(b.id())],
        devices: &vec![0; data.len()],
        variables: &[],
    };
    let mut small = simplified(&data, &request, planner.context()).unwrap();
    let [a, b] = ["a", "b"].map(|n| small.graph.find(n).unwrap());
    small.graph.wait_for(a, b);
    small.graph.wait_for(b, a);
    let none =
        |_: (u32, &str, &str), _, _: &_, _: bool| -> Result<_, thalweg_device::KernelError> {
            Err(thalweg_device::KernelError::Stopped)
        };
    let error = ordered(&small, &none, planner.context()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "node 'a' waits for itself: the graph has a cycle"
    );
}

#[test]
fn client_channels_are_below_those_between_tasks() {
    assert_eq!([0, 1, 7].map(client_channel), [-1, -2, -8]);
}

#[test]
fn a_step_runs_on_several_threads_where_they_are_wanted() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [2]);
    let y = x.tanh();
    for (threads, parallel, expected) in [
        (2, Parallel::Always, true),
        (1, Parallel::Always, false),
        (2, Parallel::Never, false),
        (2, Parallel::WhereWorth, false),
    ] {
        let mut planner = Planner::cpus(&[threads]);
        planner.options.parallel = parallel;
        let plan = planner.plan(&[y], &[x]).unwrap();
        assert_eq!(plan.parallel, expected, "{threads}, {parallel:?}");
    }
}

#[test]
fn a_plan_above_the_limit_is_refused_before_it_is_built() {
    let planner = Planner::cpus(&[1]);
    let g = graph();
    let sum = g.constant(1.0f32) + g.constant(2.0f32);
    let data = g.snapshot();
    let fetches = [Fetch::Value(sum.id())];
    let request = Request {
        feeds: &[],
        fetches: &fetches,
        devices: &[],
        variables: &[],
    };
    let within = |max_bytes| {
        let context = PlanContext {
            max_bytes: Some(max_bytes),
            ..planner.context()
        };
        compile(&data, &request, context).map(|plan| plan.estimated_bytes())
    };
    let bytes = within(usize::MAX).ok().unwrap();
    assert!(within(bytes).is_ok());
    let error = within(bytes - 1).err().unwrap();
    let limit = Some(bytes - 1);
    assert!(
        matches!(error, SessionError::PlanMemory { bytes: b, limit: l } if (b, l) == (bytes, limit)),
        "{error}"
    );
}
