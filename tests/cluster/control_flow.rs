//! TensorFlow 1's control flow and its references to variables, over several tasks.

use thalweg::dist::{ClusterOptions, Server, Session};
use thalweg::prelude::*;
use thalweg_tests::servers::{cluster, servers};

const HERE: &str = "/job:worker/task:0";
const THERE: &str = "/job:worker/task:1";

fn two_servers() -> Vec<Server> {
    servers(&cluster(&[("worker", 2)]))
}

/// A reference variable on the other task, and its assignment.
fn referenced(g: &Graph, value: f32) -> (Output<'_>, Operation<'_>) {
    g.device(THERE, || {
        let v = g.op("VariableV2").name("v").attr("dtype", DType::F32);
        let v = v.attr("shape", Shape::known(&[])).output();
        let init = g.op("Assign").input(v).input(g.constant(value)).build();
        (v, init)
    })
}

/// As `initialized_value` of TensorFlow's variables, which monitored sessions use to read the global step.
#[test]
fn a_branch_on_a_reference_runs_on_the_task_of_the_variable() {
    let all = two_servers();
    let g = Graph::new();
    let (v, init) = referenced(&g, 2.0);
    let on = g.placeholder("on", DType::Bool, []);
    let (merged, side) = g.device(THERE, || {
        let read = g.op("RefSwitch").input(v).input(on).build();
        let read = g.op("Identity").input(read.output(1)).output();
        let initial = g.op("Switch").input(g.constant(7.0f32)).input(on).build();
        let merged = g.op("Merge").inputs([initial.output(0), read]).build();
        (merged.output(0), merged.output(1))
    });
    let (twice, side) = g.device(HERE, || (merged * 2.0, side + g.constant(1i32)));
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let session = Session::on(&all[0], &g, ClusterOptions::default()).unwrap();
    // The branch that is taken reads nothing: the variable has no value yet.
    for (taken, expected, number) in [(false, 14.0f32, 1), (true, 4.0, 2), (false, 14.0, 1)] {
        let found = session.step((twice, side), [on.feed(taken)]).unwrap();
        assert_eq!(found.scalar::<f32>(0).unwrap(), expected);
        assert_eq!(found.scalar::<i32>(1).unwrap(), number);
        session.step(init, []).unwrap();
    }
}

#[test]
fn a_loop_on_another_task_takes_values_of_this_task() {
    let all = two_servers();
    let g = Graph::new();
    let n = g.placeholder("n", DType::I32, []);
    let limit = g.device(HERE, || n + g.constant(1i32));
    let exit = g.device(THERE, || {
        let enter = |input, constant: bool| {
            let enter = g.op("Enter").input(input).attr("frame_name", "loop");
            enter.attr("is_constant", constant).output()
        };
        let (start, end) = (enter(g.constant(1i32), false), enter(limit, true));
        let merge = g.op("Merge").input(start).open_input().build();
        let on = g.op("LoopCond").input(merge.output(0).less(end)).output();
        let switch = g.op("Switch").input(merge.output(0)).input(on).build();
        let doubled = switch.output(1) + switch.output(1);
        let next = g.op("NextIteration").input(doubled).output();
        g.close_loop(merge, next);
        g.op("Exit").input(switch.output(0)).output()
    });
    let after = g.device(HERE, || exit + g.constant(1i32));
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let session = Session::on(&all[0], &g, ClusterOptions::default()).unwrap();
    for (n_is, expected) in [(0, 2), (4, 9), (7, 9), (8, 17)] {
        let found = session.step(after, [n.feed(n_is)]).unwrap();
        assert_eq!(found.scalar::<i32>(0).unwrap(), expected);
    }
}

/// A node on another task than the reference's variable gets the value, as in TensorFlow.
#[test]
fn a_reference_crosses_between_tasks_as_a_value() {
    let all = two_servers();
    let g = Graph::new();
    let (v, init) = referenced(&g, 2.0);
    let added = g.op("AssignAdd").input(v).input(g.constant(1.0f32));
    let added = g.device(THERE, || added.build());
    let of = |reference| g.op("Identity").input(reference);
    let (same, sum, updated) = g.device(HERE, || {
        let same = of(v).control(added).output();
        (same, same + 1.0, of(added.output(0)).output() * 2.0)
    });
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let session = Session::on(&all[0], &g, ClusterOptions::default()).unwrap();
    session.step(init, []).unwrap();
    for value in [3.0f32, 4.0] {
        let found = session.step([same, sum, updated], []).unwrap();
        let found: Vec<f32> = (0..3).map(|i| found.scalar(i).unwrap()).collect();
        assert_eq!(found, [value, value + 1.0, value * 2.0]);
    }
}

#[test]
fn a_handle_crossing_tasks_is_an_error_of_its_node() {
    let all = two_servers();
    let g = Graph::new();
    let v = g.device(THERE, || g.variable("v", 1.0f32));
    let handle = g.device(HERE, || g.op("Identity").input(v.handle()).output());
    let session = Session::on(&all[0], &g, ClusterOptions::default());
    let told = session.and_then(|session| session.step(handle, []).map(|_| ()));
    let told = told.unwrap_err().to_string();
    assert!(told.contains("'v") || told.contains("'Identity"), "{told}");
    assert!(!told.contains("defect"), "{told}");
}
