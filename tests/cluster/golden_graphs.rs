//! Golden graphs over several tasks: values, control flow and references to variables cross between tasks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg::dist::{Cause, ClusterError, ClusterOptions, Server, Session};
use thalweg::prelude::*;
use thalweg_graphdef::messages::NodeDef;
use thalweg_graphdef::messages::attr_value::Value;
use thalweg_tests::golden_graphs::{GoldenGraph, Step, names};
use thalweg_tests::servers::{cluster, servers};

/// Ops that take only values: their nodes may be on any task.
const OF_VALUES: [&str; 9] = [
    "Add", "AddV2", "Identity", "MatMul", "Mean", "Mul", "Neg", "Square", "Sub",
];

/// TensorFlow's code of an error.
fn code(error: &ClusterError) -> &'static str {
    match error.cause {
        Cause::Uninitialized | Cause::Precondition => "FAILED_PRECONDITION",
        Cause::OutOfRange => "OUT_OF_RANGE",
        Cause::Deadline => "DEADLINE_EXCEEDED",
        Cause::Cancelled => "CANCELLED",
        _ => "INVALID_ARGUMENT",
    }
}

/// Runs steps of a graph over a cluster, with variables of its own, from the first task.
fn steps<'g>(all: &'g [Server], graph: &'g Graph) -> Result<Step<'g>, String> {
    let options = ClusterOptions::new()
        .isolated(true)
        .session(SessionOptions::new().soft_placement(true));
    let session = Session::on(&all[0], graph, options).map_err(|e| e.to_string())?;
    Ok(Box::new(move |fetches, feeds| {
        let done = session.step(fetches, feeds);
        done.map_err(|e| (code(&e), e.to_string()))
    }))
}

/// Runs every golden graph on three tasks; panics with the failures. `place` returns the task of a node without a
/// device.
fn check(place: impl Fn(&NodeDef) -> usize + Sync) {
    let mut names = names(&std::env::var("GRAPH").unwrap_or_default());
    assert!(!names.is_empty());
    // The target of its remote calls is a task of job localhost, which this cluster does not have.
    names.retain(|name| name != "functions_remote");
    let all = servers(&cluster(&[("worker", 3)]));
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let place = |node: &mut NodeDef| {
        if node.device.is_empty() {
            node.device = format!("/job:worker/task:{}", place(node));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let graph = Graph::new();
                    let golden = GoldenGraph::read(name);
                    if let Err(e) = golden.check_on(&graph, place, |g| steps(&all, g)) {
                        wrong.lock().unwrap().push(format!("{name}: {e}"));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    let (count, of) = (wrong.len(), names.len());
    assert!(wrong.is_empty(), "{count} of {of}:\n{}", wrong.join("\n"));
}

#[test]
fn golden_graphs_on_another_task_match_tensorflow() {
    check(|_| 1);
}

/// Nodes with references, handles or branches are on one task, and the others anywhere: the values of variables cross,
/// also where a node on another task takes a reference.
#[test]
fn golden_graphs_partitioned_over_tasks_match_tensorflow() {
    check(|node| {
        let mut types = node.attr.values().map(|a| &a.value);
        // DT_RESOURCE and DT_VARIANT.
        let has_handles = types.any(|v| matches!(v, Some(Value::Type(20 | 21))));
        let stands_with_others = node.attr.contains_key("_class");
        if !OF_VALUES.contains(&node.op.as_str()) || has_handles || stands_with_others {
            return 1;
        }
        let bytes = node.name.bytes();
        let hash = bytes.fold(7u32, |h, b| h.wrapping_mul(31) ^ u32::from(b));
        1 + (hash >> 3) as usize % 2
    });
}
