//! Strategies that spread variables over servers; invalid loads and device functions.

use std::sync::atomic::{AtomicU32, Ordering};

use thalweg::graph::device::{Balanced, DeviceFnError, LoadTable, PsStrategy, WithinMemory};
use thalweg::graph::{Node, Reason};
use thalweg::prelude::*;

/// A variable of this size in bytes.
fn variable(g: &Graph, bytes: i64) {
    let node = g.op("VarHandleOp").attr("dtype", DType::U8);
    node.attr("shape", Shape::from([bytes])).build();
}

/// The tasks that variables of these bytes get, and the graph's errors.
fn tasks(
    strategy: impl PsStrategy + 'static,
    servers: u32,
    bytes: &[(i64, Option<u32>)],
) -> (Vec<u32>, Vec<Reason>) {
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(servers).strategy(strategy);
    g.device(setter, || {
        for &(bytes, own) in bytes {
            match own {
                Some(task) => g.device(format!("/task:{task}"), || variable(&g, bytes)),
                None => variable(&g, bytes),
            }
        }
    });
    let data = g.snapshot();
    let tasks = data.nodes().filter_map(|(_, n)| n.device.task).collect();
    (tasks, g.errors().into_iter().map(|e| e.reason).collect())
}

fn free(bytes: &[i64]) -> Vec<(i64, Option<u32>)> {
    bytes.iter().map(|&b| (b, None)).collect()
}

#[test]
fn within_memory_takes_the_emptiest_server_that_has_room() {
    let limits = || WithinMemory::new([100, 50]);
    let (got, errors) = tasks(limits(), 2, &free(&[60, 40, 40, 10]));
    assert_eq!((got, errors.len()), (vec![0, 1, 0, 1], 0));
    // The second fits on no server; those after it still may.
    let (got, errors) = tasks(limits(), 2, &free(&[60, 55, 50]));
    assert_eq!(got, [0, 1]);
    let expected = DeviceFnError::Memory {
        bytes: 55,
        free: vec![40, 50],
    };
    assert_eq!(errors, [Reason::Choice(expected)]);
}

#[test]
fn within_memory_counts_variables_that_name_their_server() {
    let limits = || WithinMemory::new([100, 100]);
    let (got, errors) = tasks(limits(), 2, &[(80, Some(1)), (80, None)]);
    assert_eq!((got, errors.len()), (vec![1, 0], 0));
    let (_, errors) = tasks(limits(), 2, &[(80, Some(1)), (80, Some(1))]);
    assert!(matches!(
        &errors[..],
        [Reason::Choice(DeviceFnError::Memory { bytes: 80, .. })]
    ));
}

/// A strategy with this cost of updates, by bytes.
fn balanced(servers: u32, cost: fn(f64) -> f64) -> Balanced {
    Balanced::new(servers, move |node: &Node| {
        thalweg::graph::device::byte_size_load(node).map(cost)
    })
}

#[test]
fn balanced_considers_bytes_and_update_costs() {
    let bytes = free(&[100, 10, 10, 10, 10]);
    // By bytes alone the small ones are all on the other server.
    let greedy = Greedy::by_bytes(2);
    assert_eq!(tasks(greedy, 2, &bytes).0, [0, 1, 1, 1, 1]);
    // Where each update costs the same, some of them move over.
    let (got, _) = tasks(balanced(2, |_| 1.0), 2, &bytes);
    assert!(got[1..].contains(&0), "{got:?}");
    // With costs proportional to bytes, it equals the greedy strategy.
    assert_eq!(tasks(balanced(2, |b| b), 2, &bytes).0, [0, 1, 1, 1, 1]);
    // One that names its server counts there.
    let (got, _) = tasks(
        balanced(2, |b| b),
        2,
        &[(50, Some(1)), (10, None), (10, None)],
    );
    assert_eq!(got, [1, 0, 0]);
}

#[test]
fn greedy_uses_a_custom_load() {
    let next = AtomicU32::new(0);
    let loads = [5.0, 1.0, 1.0, 1.0, 9.0];
    let by = Greedy::by(2, move |_| {
        Ok(loads[next.fetch_add(1, Ordering::Relaxed) as usize])
    });
    assert_eq!(tasks(by, 2, &free(&[1; 5])).0, [0, 1, 1, 1, 1]);
}

#[test]
fn a_nan_load_is_an_error() {
    for load in [f64::NAN, f64::INFINITY, -1.0] {
        let by = Greedy::by(2, move |_| Ok(load));
        let (_, errors) = tasks(by, 2, &free(&[1]));
        assert!(matches!(
            errors[..],
            [Reason::Choice(DeviceFnError::Load { .. })]
        ));
        let by = Balanced::new(2, move |_: &Node| Ok(load));
        assert_eq!(tasks(by, 2, &free(&[1])).1.len(), 1);
    }
}

#[test]
fn a_load_of_unknown_size_is_an_error() {
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(2).strategy(Greedy::by_bytes(2));
    g.device(setter, || {
        let node = g.op("VarHandleOp").attr("dtype", DType::F32);
        node.attr("shape", Shape::from([-1i64])).build();
    });
    let reasons: Vec<Reason> = g.errors().into_iter().map(|e| e.reason).collect();
    assert!(matches!(
        reasons[..],
        [Reason::Choice(DeviceFnError::Shape { .. })]
    ));
    // A load table takes any variable.
    let g = Graph::new();
    (0..3).for_each(|_| variable(&g, i64::MAX));
    let table = LoadTable::requested(&g.snapshot(), &[]);
    assert_eq!(table.bytes(), u64::MAX);
}

#[test]
fn a_device_function_that_builds_nodes_is_an_error() {
    // The function has to own what it builds in.
    let g: &'static Graph = Box::leak(Box::new(Graph::new()));
    let builds = DeviceScope::function(move |_| {
        g.constant(1.0f32);
        Ok(None)
    });
    g.device(builds, || g.constant(2.0f32));
    let strategy = Greedy::by(2, move |_| {
        variable(g, 1);
        Ok(1.0)
    });
    g.device(ReplicaDeviceSetter::new(2).strategy(strategy), || {
        variable(g, 1)
    });
    let errors = g.errors();
    assert_eq!(errors.len(), 2, "{errors:?}");
    for error in errors {
        assert_eq!(error.reason, Reason::InDeviceFunction);
        assert!(error.to_string().contains("tests/engine/strategies.rs:"));
    }
    // The node that was being built exists all the same.
    assert_eq!(g.snapshot().len(), 2);
}

#[test]
fn a_setter_for_a_cluster_counts_the_tasks_of_its_job() {
    let device = |cluster: &[(&'static str, u32)]| {
        let g = Graph::new();
        let ps = DeviceSpec::parse("/job:ps").unwrap();
        let setter = ReplicaDeviceSetter::in_cluster(cluster.iter().copied(), ps);
        g.device("/job:outer", || {
            g.device(setter, || (0..3).for_each(|_| variable(&g, 1)))
        });
        let data = g.snapshot();
        let devices = data.nodes().map(|(_, n)| n.device.to_string());
        devices.collect::<Vec<_>>()
    };
    let ps = |task: u32| format!("/job:ps/task:{task}");
    assert_eq!(device(&[("worker", 4), ("ps", 2)]), [ps(0), ps(1), ps(0)]);
    // Without servers the scope requests nothing, and hides the scopes around it.
    assert_eq!(device(&[("worker", 4)]), ["", "", ""]);
    assert_eq!(device(&[("ps", 0)]), ["", "", ""]);
}

#[test]
fn a_malformed_device_string_names_the_scope_and_its_line() {
    let g = Graph::new();
    g.device("/cpu:x", || g.constant(1.0f32));
    let error = Session::new(&g).err().unwrap().to_string();
    assert!(
        error.contains("device scope, made at tests/engine/strategies.rs:"),
        "{error}"
    );
    assert!(error.contains("'/cpu:x', at character"), "{error}");
}
