//! Several devices in one process: requested devices, errors of placement, soft placement, traces.

use thalweg::graph::place::{NamePart, PlaceReason};
use thalweg::graph::{PlaceError, Reason};
use thalweg::prelude::*;
use thalweg_tests::chrome_trace::arrows;
use thalweg_tests::cpus::cpus;

/// The placement error of a graph.
fn placement_error(g: &Graph, options: SessionOptions) -> PlaceError {
    match Session::with_options(g, options) {
        Err(SessionError::Place(e) | SessionError::Gpu { place: e, .. }) => *e,
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("a session was made"),
    }
}

#[test]
fn a_missing_gpu_is_an_error_that_names_the_missing_part() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    g.device("/gpu:0", || x.square());
    let text = Session::new(&g).expect_err("no GPU").to_string();
    assert!(text.contains("tests/engine/devices.rs:"), "{text}");
    // Whatever this machine has: a driver is missing, a card is, or sessions do not use it.
    let said = ["libcuda.so", "no GPU", "driver", "do not run on GPUs yet"];
    assert!(said.iter().any(|s| text.contains(s)), "{text}");
}

#[test]
fn an_unknown_device_is_an_error_with_a_suggestion() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    g.device("/cpu:3", || g.op("Square").input(x).name("y").output());
    let e = placement_error(&g, cpus(2));
    let text = e.to_string();
    let PlaceReason::NoSuchDevice { part, nearest, .. } = e.reason else {
        panic!("{text}");
    };
    assert_eq!((e.node.as_str(), part), ("y", NamePart::Index));
    assert!(nearest.is_some());
    assert!(text.contains("tests/engine/devices.rs:"), "{text}");
    assert!(text.contains("/device:CPU:1"), "{text}");

    for (asked, missing) in [
        ("/job:ps", NamePart::Job),
        ("/job:localhost/task:7", NamePart::Task),
        ("/job:localhost/replica:2", NamePart::Replica),
        ("/gpu:0", NamePart::Type),
    ] {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, []);
        g.device(asked, || x.square());
        match placement_error(&g, cpus(1)).reason {
            PlaceReason::NoSuchDevice { part, .. } => assert_eq!(part, missing, "{asked}"),
            e => panic!("{e}"),
        }
    }
}

#[test]
fn an_invalid_device_string_never_falls_back_to_the_cpu() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    g.device("/gpuu:0", || x.square());
    match Session::new(&g) {
        Err(SessionError::Graph { first, count: 1 }) => {
            assert!(matches!(first.reason, Reason::Device(_)), "{first}");
            let text = first.to_string();
            assert!(
                text.contains("character 1") && text.contains("/gpu:"),
                "{text}"
            );
            assert!(text.contains("tests/engine/devices.rs:"), "{text}");
        }
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("a session was made"),
    }
}

#[test]
fn a_failing_or_panicking_device_function_is_an_error_of_its_node() {
    let failing = DeviceScope::function(|_| Ok(Some(DeviceSpec::parse("/cpu:x")?)));
    let panicking = DeviceScope::function(|node| panic!("no idea where {} goes", node.name));
    let nowhere = DeviceScope::function(|_| Ok(Some(DeviceSpec::parse("/job:moon")?)));
    for (scope, said) in [
        (failing, "character 5"),
        (panicking, "no idea where y goes"),
        (nowhere, "there is no job moon"),
    ] {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, []);
        g.device(scope, || g.op("Square").input(x).name("y").output());
        let Err(e) = Session::new(&g) else {
            panic!("a session was made");
        };
        let text = e.to_string();
        assert!(text.contains("'y' (Square)"), "{text}");
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn conflicting_colocated_nodes_are_listed_with_their_requests() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let a = g.device("/cpu:0", || x.tanh().operation());
    let b = g.device("/cpu:1", || x.tanh().operation());
    g.colocate_with(a, || g.colocate_with(b, || x.square()));
    let e = placement_error(&g, cpus(2));
    let text = e.to_string();
    let PlaceReason::Conflict { members, part, .. } = e.reason else {
        panic!("{text}");
    };
    assert_eq!(part, NamePart::Index);
    assert!(members.len() >= 2);
    assert!(
        text.contains("/device:CPU:0") && text.contains("/device:CPU:1"),
        "{text}"
    );
    // Where types and numbers may give way, one device is found for all.
    let soft = cpus(2).soft_placement(true);
    assert!(Session::with_options(&g, soft).is_ok());
}

#[test]
fn an_update_runs_on_the_device_of_its_variable() {
    let g = Graph::new();
    let v = g.device("/cpu:1", || g.variable("v", 1.0f32));
    let add = g.device("/cpu:0", || v.assign_add(1.0f32));
    let session = Session::with_options(&g, cpus(2)).unwrap();
    let rows = session.placement().unwrap().rows;
    let row = rows.iter().find(|r| r.op == "AssignAddVariableOp").unwrap();
    assert_eq!(row.assigned.index, Some(1));
    assert!(row.why.contains("with v, although"), "{}", row.why);
    session.run(g.initializers(), []).unwrap();
    session.run(add, []).unwrap();
    let got = session.step(v, []).unwrap();
    assert_eq!(got.scalar::<f32>(0).unwrap(), 2.0);
}

#[test]
fn soft_placement_falls_back_and_reports_it() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let y = g.device("/gpu:0", || g.op("Square").input(x).name("y").output());
    let options = cpus(1).soft_placement(true);
    let session = Session::with_options(&g, options.clone()).unwrap();
    let rows = session.placement().unwrap().rows;
    let row = rows.iter().find(|r| r.node == "y").unwrap();
    assert!(
        row.why.contains("/device:GPU:0 cannot be had"),
        "{}",
        row.why
    );
    let table = session.placement().unwrap().to_text();
    assert!(table.contains("/device:GPU:0 cannot be had"), "{table}");
    let got = session.step(y, [x.feed(3.0f32)]).unwrap();
    assert_eq!(got.scalar::<f32>(0).unwrap(), 9.0);
    let denied = placement_error(&g, options.deny_fallback(true)).reason;
    assert!(matches!(denied, PlaceReason::Fallback { .. }), "{denied}");
}

#[test]
fn nodes_built_after_the_session_are_placed_with_the_next_plan() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let y = g.device("/cpu:1", || x.square());
    let session = Session::with_options(&g, cpus(2)).unwrap();
    let before = session.placement().unwrap().rows;
    let z = g.device("/cpu:0", || y + 1.0);
    let got = session.step(z, [x.feed(2.0f32)]).unwrap();
    assert_eq!(got.scalar::<f32>(0).unwrap(), 5.0);
    let after = session.placement().unwrap().rows;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(
            (&before.node, &before.assigned),
            (&after.node, &after.assigned)
        );
    }
    g.device("/cpu:9", || z.square());
    let e = session.step(z, [x.feed(2.0f32)]);
    assert!(e.is_ok(), "a kept plan goes on");
    let e = session.step((z, y), [x.feed(2.0f32)]);
    assert!(matches!(e, Err(SessionError::Place(_))));
}

#[test]
fn a_trace_names_the_device_of_each_node() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [4]);
    let y = g.device("/cpu:0", || x.tanh());
    let z = g.device("/cpu:1", || y.tanh());
    let session = Session::with_options(&g, cpus(2)).unwrap();
    let input = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    let (_, trace) = session
        .step_with(z, [x.feed(&input)], &RunOptions::new().traced())
        .unwrap();
    let ran: Vec<(&str, &str)> = trace
        .events
        .iter()
        .map(|e| (e.op.as_str(), e.device.rsplit('/').next().unwrap()))
        .collect();
    assert_eq!(
        ran,
        [
            ("Tanh", "device:CPU:0"),
            ("_Send", "device:CPU:0"),
            ("_Recv", "device:CPU:1"),
            ("Tanh", "device:CPU:1"),
        ]
    );
    let name = |number: u32| format!("/job:localhost/replica:0/task:0/device:CPU:{number}");
    assert_eq!(arrows(&trace), [[name(0), name(1)]]);
}

#[test]
fn interleaved_chains_over_devices_do_not_deadlock() {
    const LINKS: usize = 600;
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let mut chains = [x, x, x];
    for _ in 0..LINKS {
        let before = chains;
        for (i, chain) in chains.iter_mut().enumerate() {
            let device = format!("/cpu:{i}");
            *chain = g.device(device, || (before[i] - before[(i + 1) % 3]) * 0.5);
        }
    }
    let session = Session::with_options(&g, cpus(3)).unwrap();
    let input = Tensor::from([1.0f32, 2.0]);
    let run = || {
        let got = session.step(chains, [x.feed(&input)]).unwrap();
        let bits = |i| got.slice::<f32>(i).unwrap().iter().map(|v| v.to_bits());
        (0..3).flat_map(bits).collect::<Vec<_>>()
    };
    let expected = run();
    // One after the other, and many at a time: then some find all leaders busy.
    (0..200).for_each(|_| assert_eq!(run(), expected));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..50).for_each(|_| assert_eq!(run(), expected)));
        }
    });
}

#[test]
fn late_threads_of_a_device_lose_no_work_to_helpers() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let a = g.device("/cpu:0", || x.tanh());
    let chains = g.device("/cpu:1", || {
        let mut chains = [x, x + 1.0, x + 2.0, x + 3.0];
        for _ in 0..1500 {
            chains = chains.map(|c| c * 0.5);
        }
        chains
    });
    let session = Session::with_options(&g, cpus(2)).unwrap();
    let input = Tensor::from([1.0f32, 2.0]);
    for _ in 0..2000 {
        session.step((a, &chains), [x.feed(&input)]).unwrap();
    }
}

#[test]
fn a_partitioned_graph_is_drawn_with_a_box_for_each_device() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [4]);
    let y = g.device("/cpu:0", || x.tanh());
    let z = g.device("/cpu:1", || y.tanh() + y);
    let session = Session::with_options(&g, cpus(2)).unwrap();
    let feed = [x.feed(Tensor::from([1.0f32, 2.0, 3.0, 4.0]))];
    let dot = session.explain_dot(z, &feed).unwrap();
    assert_eq!(dot.matches("subgraph cluster_").count(), 2, "{dot}");
    assert_eq!(dot.matches("penwidth").count(), 1, "{dot}");
    assert_eq!(dot.matches('{').count(), dot.matches('}').count());
    let text = session.explain(z, &feed).unwrap();
    assert!(
        text.contains("/device:CPU:1") && text.contains("_Recv"),
        "{text}"
    );
}

#[test]
fn a_branch_updates_variables_of_two_devices() {
    type Train = for<'g> fn(&'g Graph, [Variable<'g>; 2]) -> Operation<'g>;
    // By Switch, and by a call.
    let accumulated: Train =
        |_, [a, b]| Accumulate::new(GradientDescent::new(1.0), 1).minimize(a * 2.0 + b * 3.0);
    let called: Train = |g, [a, b]| {
        // A constant would leave one branch.
        let yes = g.untrained_variable("yes", true).value();
        let done = g.cond(
            yes,
            |g| {
                let set = [a.assign_sub(2.0f32), b.assign_sub(3.0f32)];
                vec![g.control_dependencies(set, || g.constant(1.0f32))]
            },
            |g| vec![g.constant(0.0f32)],
        );
        done[0].operation()
    };
    for (name, train) in [("called", called), ("accumulated", accumulated)] {
        let g = Graph::new();
        let a = g.device("/cpu:0", || g.variable("a", 1.0f32));
        let b = g.device("/cpu:1", || g.variable("b", 1.0f32));
        let train = train(&g, [a, b]);
        let session = Session::with_options(&g, cpus(2).soft_placement(true)).unwrap();
        session.run(g.initializers(), []).unwrap();
        for steps in [1.0f32, 2.0] {
            session.step(train, []).unwrap();
            let found = [a, b].map(|v| session.run::<f32>(v, []).unwrap());
            let expected = [1.0 - 2.0 * steps, 1.0 - 3.0 * steps];
            assert_eq!(found, expected, "{name}");
        }
    }
}

/// Functions `f0` to `f{depth}`, each of two handles, each of which calls the next one twice; the last one calls `last`.
fn define_callers(g: &Graph, handles: [Output<'_>; 2], depth: usize, last: &str) {
    for i in 0..=depth {
        let called = match i == depth {
            true => last.to_owned(),
            false => format!("f{}", i + 1),
        };
        let body = g.body(&format!("f{i}"));
        let [a, b] = handles.map(|h| body.argument("a", &h.fact()));
        let call = || {
            let call = body.op("StatefulPartitionedCall").inputs([a, b]);
            let call = call.attr("f", thalweg::graph::Func::named(&called));
            call.attr("Tout", vec![DType::F32]).output()
        };
        let sum = call() + call();
        for mut function in g.close_bodies(&[(body, &[a, b], &[sum])]).functions {
            function.name = format!("f{i}");
            g.define(function);
        }
    }
}

#[test]
fn calls_of_two_devices_that_nest_without_end_are_an_error() {
    for (depth, last) in [(0, "f0"), (12, "f12"), (40, "f0")] {
        let g = Graph::new();
        let a = g.device("/cpu:0", || g.variable("a", 1.0f32));
        let b = g.device("/cpu:1", || g.variable("b", 1.0f32));
        let handles = [a.handle(), b.handle()];
        define_callers(&g, handles, depth, last);
        let call = g.op("StatefulPartitionedCall").inputs(handles);
        let call = call.attr("f", thalweg::graph::Func::named("f0"));
        let y = call.attr("Tout", vec![DType::F32]).output();
        let session = Session::with_options(&g, cpus(2)).unwrap();
        session.run(g.initializers(), []).unwrap();
        let told = session.step(y, []).unwrap_err().to_string();
        assert!(
            told.contains("nest deeper") || told.contains("use a While"),
            "{told}"
        );
    }
}

#[test]
fn a_branch_runs_on_the_device_of_its_variable() {
    let g = Graph::new();
    let b = g.device("/cpu:1", || g.variable("b", 1.0f32));
    let x = g.device("/cpu:0", || g.placeholder("x", DType::F32, []));
    let train = Accumulate::new(GradientDescent::new(1.0), 2).minimize(b * x);
    let session = Session::with_options(&g, cpus(2)).unwrap();
    session.run(g.initializers(), []).unwrap();
    for expected in [1.0f32, 0.0] {
        session.step(train, [x.feed(1.0f32)]).unwrap();
        assert_eq!(session.run::<f32>(b, []).unwrap(), expected);
    }
}

#[test]
fn a_branch_takes_the_values_of_variables_on_other_devices_that_it_only_reads() {
    for updates in [false, true] {
        let g = Graph::new();
        let a = g.device("/cpu:0", || g.variable("a", 1.0f32));
        let b = g.device("/cpu:1", || g.variable("b", 2.0f32));
        let on = g.placeholder("on", DType::Bool, []);
        // The branch waits for an update of the variable that it only reads.
        let first = a.assign_add(10.0f32);
        let on_after = g.control_dependencies([first], || g.op("Identity").input(on).output());
        let [of_a, of_b] = [a, b].map(|v| {
            let switch = g.op("Switch").input(v.handle()).input(on_after).build();
            switch.output(1)
        });
        let read = |handle| {
            let node = g.op("ReadVariableOp").input(handle);
            node.attr("dtype", DType::F32).output()
        };
        let value = read(of_a);
        let sum = match updates {
            false => value + read(of_b),
            true => {
                let add = g.op("AssignAddVariableOp").input(of_b).input(value);
                let add = add.attr("dtype", DType::F32).build();
                g.control_dependencies([add], || read(of_b))
            }
        };
        let zero = g.constant(0.0f32);
        let other = g.op("Switch").input(zero).input(on_after).build().output(0);
        let merged = g.op("Merge").inputs([other, sum]).build().output(0);
        let session = Session::with_options(&g, cpus(2)).unwrap();
        session.run(g.initializers(), []).unwrap();
        let run = |value: bool| session.run::<f32>(merged, [on.feed(value)]).unwrap();
        assert_eq!(run(true), 13.0, "updates: {updates}");
        assert_eq!(run(false), 0.0, "updates: {updates}");
        let b_now = if updates { 13.0 } else { 2.0 };
        assert_eq!(session.run::<f32>(b, []).unwrap(), b_now);
        assert_eq!(run(true), b_now + 31.0, "updates: {updates}");
    }
}

#[test]
fn a_called_function_takes_the_values_of_variables_on_other_devices_that_it_only_reads() {
    for updates in [false, true] {
        let g = Graph::new();
        let a = g.device("/cpu:0", || g.variable("a", 1.0f32));
        let b = g.device("/cpu:1", || g.variable("b", 2.0f32));
        let rows = g.device("/cpu:0", || g.variable("rows", [5.0f32, 7.0]));
        let on = g.placeholder("on", DType::Bool, []);
        // The branch waits for an update of the variable that it only reads.
        let first = a.assign_add(10.0f32);
        let on_after = g.control_dependencies([first], || g.op("Identity").input(on).output());
        let row = |at: i32| {
            let node = g.op("ResourceGather").input(rows.handle());
            let node = node.input(g.constant(at)).attr("dtype", DType::F32);
            node.attr("Tindices", DType::I32).output()
        };
        let branch = g.cond(
            on_after,
            |g| match updates {
                false => vec![a.read() + b.read() + row(1)],
                true => {
                    let set = b.assign_add(a.read() + row(1));
                    vec![g.control_dependencies([set], || b.read())]
                }
            },
            |g| vec![g.constant(0.0f32)],
        )[0];
        // A branch in a loop: the loop hands the handles to its next turn.
        let turns = g.while_loop(
            &[g.constant(0i32), g.constant(0.0f32)],
            |_, v| v[0].less(3),
            |g, v| {
                let even = v[0].floor_mod(2).equal(0);
                let add = g.cond(even, |_| vec![a.read()], |_| vec![b.read() * row(0)]);
                vec![v[0] + 1, v[1] + add[0]]
            },
        )[1];
        assert_eq!(g.errors(), []);
        let session = Session::with_options(&g, cpus(2)).unwrap();
        session.run(g.initializers(), []).unwrap();
        let run = |value: bool| session.run::<f32>(branch, [on.feed(value)]).unwrap();
        assert_eq!(run(true), 20.0, "updates: {updates}");
        assert_eq!(run(false), 0.0, "updates: {updates}");
        let b_now = if updates { 20.0 } else { 2.0 };
        assert_eq!(session.run::<f32>(b, []).unwrap(), b_now);
        assert_eq!(session.run::<f32>(turns, []).unwrap(), 42.0 + 5.0 * b_now);
    }
}
