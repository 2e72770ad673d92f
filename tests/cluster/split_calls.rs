//! Conditionals and calls whose functions update variables of several tasks.

use thalweg::dist::{ClusterOptions, Server, Session};
use thalweg::graph::Func;
use thalweg::prelude::*;
use thalweg_tests::servers::{cluster, servers};

const TASKS: [&str; 3] = [
    "/job:worker/task:0",
    "/job:worker/task:1",
    "/job:worker/task:2",
];

fn three_servers() -> Vec<Server> {
    servers(&cluster(&[("worker", 3)]))
}

/// A variable on each of the other tasks, one and ten.
fn variables(g: &Graph) -> [Variable<'_>; 2] {
    let v = g.device(TASKS[1], || g.variable("v", 1.0f32));
    let w = g.device(TASKS[2], || g.variable("w", 10.0f32));
    [v, w]
}

/// Adds `by` to the variable behind `v`, that to the variable behind `w`, and that to the first one again, which it
/// returns: values go from task to task and back.
fn add_up<'g>(v: Output<'g>, w: Output<'g>, by: Output<'g>) -> Output<'g> {
    let add = |handle: Output<'g>, value: Output<'g>| {
        let g = handle.graph();
        let added = g
            .op("AssignAddVariableOp")
            .input(handle)
            .input(value)
            .build();
        let read = g.op("ReadVariableOp").input(handle).control(added);
        read.attr("dtype", DType::F32).output()
    };
    let first = add(v, by);
    let second = add(w, first);
    add(v, second)
}

/// Runs a step that calls `add_up` with 2 if it is taken, and compares the variables and the result.
fn check(all: &[Server], g: &Graph, on: Output<'_>, result: Output<'_>, [v, w]: [Variable<'_>; 2]) {
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let session = Session::on(&all[0], g, ClusterOptions::default()).unwrap();
    session.step(g.initializers(), []).unwrap();
    let (mut v_is, mut w_is) = (1.0f32, 10.0f32);
    for taken in [false, true, true, false] {
        let found = session.step(result, [on.feed(taken)]).unwrap();
        if taken {
            v_is += 2.0;
            w_is += v_is;
            v_is += w_is;
        }
        let expected = if taken { v_is } else { -1.0 };
        assert_eq!(found.scalar::<f32>(0).unwrap(), expected);
        let found = session.step([v.value(), w.value()], []).unwrap();
        assert_eq!(found.scalar::<f32>(0).unwrap(), v_is);
        assert_eq!(found.scalar::<f32>(1).unwrap(), w_is);
    }
}

#[test]
fn a_switch_and_a_merge_update_variables_of_two_tasks() {
    let all = three_servers();
    let g = Graph::new();
    let [v, w] = variables(&g);
    let on = g.placeholder("on", DType::Bool, []);
    let result = g.device(TASKS[0], || {
        let values = [v.handle(), w.handle(), g.constant(2.0f32)];
        let [v, w, by] = values.map(|value| g.op("Switch").input(value).input(on).build());
        let taken = add_up(v.output(1), w.output(1), by.output(1));
        g.op("Merge")
            .inputs([by.output(0) - g.constant(3.0f32), taken])
            .output()
    });
    check(&all, &g, on, result, [v, w]);
}

#[test]
fn a_conditional_in_a_conditional_updates_variables_of_two_tasks() {
    let all = three_servers();
    let g = Graph::new();
    let [v, w] = variables(&g);
    let on = g.placeholder("on", DType::Bool, []);
    let result = g.device(TASKS[0], || {
        g.cond(
            on,
            |b| {
                let inner = b.cond(
                    on,
                    |b| vec![add_up(v.handle(), w.handle(), b.constant(2.0f32))],
                    |b| vec![b.constant(5.0f32)],
                );
                vec![inner[0] + b.constant(0.0f32)]
            },
            |b| vec![b.constant(-1.0f32)],
        )[0]
    });
    check(&all, &g, on, result, [v, w]);
}

#[test]
fn a_called_function_updates_variables_of_two_tasks() {
    let all = three_servers();
    let g = Graph::new();
    let [v, w] = variables(&g);
    let body = g.body("add_up");
    let arguments: Vec<_> = [v.handle(), w.handle(), g.constant(2.0f32)]
        .iter()
        .enumerate()
        .map(|(i, o)| body.argument(&format!("a{i}"), &o.fact()))
        .collect();
    let sum = add_up(arguments[0], arguments[1], arguments[2]);
    let closed = g.close_bodies(&[(body, &arguments, &[sum])]);
    let name = closed.functions[0].name.clone();
    closed.functions.into_iter().for_each(|f| g.define(f));
    let result = g.device(TASKS[0], || {
        let call = g
            .op("StatefulPartitionedCall")
            .attr("f", Func::named(&name));
        let call = call.inputs([v.handle(), w.handle(), g.constant(2.0f32)]);
        call.attr("Tout", vec![DType::F32]).output()
    });
    let session = Session::on(&all[0], &g, ClusterOptions::default()).unwrap();
    session.step(g.initializers(), []).unwrap();
    for expected in [16.0f32, 49.0] {
        let found = session.step(result, []).unwrap();
        assert_eq!(found.scalar::<f32>(0).unwrap(), expected);
    }
}

/// A loop runs on one device. The error says what to do.
#[test]
fn a_loop_in_a_branch_does_not_update_variables_of_two_tasks() {
    let all = three_servers();
    let g = Graph::new();
    let [v, w] = variables(&g);
    let on = g.placeholder("on", DType::Bool, []);
    let result = g.device(TASKS[0], || {
        g.cond(
            on,
            |b| {
                b.while_loop(
                    &[b.constant(0.0f32)],
                    |b, x| x[0].less(b.constant(3.0f32)),
                    |b, x| {
                        vec![add_up(v.handle(), w.handle(), b.constant(1.0f32)) * 0.0 + x[0] + 1.0]
                    },
                )
            },
            |b| vec![b.constant(-1.0f32)],
        )[0]
    });
    let session = Session::on(&all[0], &g, ClusterOptions::default());
    let told = session.and_then(|session| {
        session.step(g.initializers(), [])?;
        session.step(result, [on.feed(true)]).map(|_| ())
    });
    let told = told.unwrap_err().to_string();
    assert!(told.contains("put them on one device"), "{told}");
}
