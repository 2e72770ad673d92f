//! Tests of the metrics of peers, and of limits on their values.

mod client;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::time::Duration;

use client::numbers::{found, met, value};
use thalweg_dist::{ClusterOptions, Limits, Server, ServerOptions, Session, Timeouts};
use thalweg_graph::{Attr, DeviceSpec, Graph};
use thalweg_ops::{MathOps, NewGraph, RandomOps, SourceOps, StateOps};
use thalweg_session::SessionOptions;
use thalweg_tensor::DType;
use wait::{LATE, until};

/// Number of elements of a transferred value: enough for shared memory.
const MANY: usize = 1 << 16;

fn options() -> ServerOptions {
    ServerOptions::listening("")
}

/// A parameter server and a worker.
fn two(options: ServerOptions) -> [Server; 2] {
    let options = options
        .session(SessionOptions::new().threads(1))
        .timeouts(Timeouts::new().heartbeat(Duration::from_millis(500)));
    let tasks = Server::local_cluster(&[("ps", 1), ("worker", 1)], options).unwrap();
    tasks.try_into().unwrap()
}

fn on(job: &str) -> DeviceSpec {
    format!("/job:{job}/task:0").parse().unwrap()
}

fn link(server: &Server, number: &str, peer: &str) -> f64 {
    let name = format!("thalweg_{number}{{peer=\"/job:{peer}/task:0\"}}");
    found(&server.metrics(), &name).unwrap_or(0.0)
}

/// Runs a step that reads a large value from the server, and one that sends it one.
fn exchange(worker: &Server) {
    let g = Graph::new();
    let w = g.device(on("ps"), || g.variable("w", vec![1.0f32; MANY]));
    let read = w.read();
    let next = g.device(on("worker"), || read + read);
    let add = w.assign_add(next);
    let session = Session::on(worker, &g, ClusterOptions::default()).unwrap();
    session.run(w.initializer(), []).unwrap();
    session.run(add, []).unwrap();
}

#[test]
fn bytes_between_tasks_are_counted_at_both_ends() {
    let [ps, worker] = two(options().shared_memory(false));
    assert_eq!(found(&worker.metrics(), "thalweg_peers_lost"), Some(0.0));
    assert!(!worker.metrics().contains("peer=\""));
    exchange(&worker);
    let most = (4 * MANY) as f64;
    for (at, other) in [(&ps, "worker"), (&worker, "ps")] {
        for way in ["sent", "received"] {
            let bytes = link(at, &format!("link_{way}_bytes_total"), other);
            assert!(bytes > most && bytes < 4.0 * most, "{way}: {bytes}");
        }
        assert_eq!(link(at, "link_shared_bytes_total", other), 0.0);
        let silent = link(at, "peer_silent_seconds", other);
        assert!(silent < LATE.as_secs_f64(), "{silent}");
        assert_eq!(link(at, "peer_losses_total", other), 0.0);
    }
    // Neither a client nor an unknown name of a caller is a peer.
    let peers = |s: &Server| s.metrics().matches("link_sent_bytes_total{").count();
    let g = Graph::new();
    let session = Session::connect(&ps.target(), &g, ClusterOptions::default()).unwrap();
    session.run::<f32>(g.constant(1.0f32) + 1.0, []).unwrap();
    assert_eq!((peers(&ps), peers(&worker)), (1, 1));
}

#[test]
fn receives_that_wait_name_the_task_they_wait_for() {
    let [ps, worker] = two(options());
    let g = Graph::new();
    let types = || Attr::Types(vec![DType::F32]);
    let queue = || {
        g.op("FIFOQueueV2")
            .attr("component_types", types())
            .output()
    };
    let queue = g.device(on("ps"), queue);
    let take = || {
        g.op("QueueDequeueV2")
            .input(queue)
            .attr("component_types", types())
    };
    let taken = g.device(on("ps"), || take().output());
    let next = g.device(on("worker"), || taken + 1.0);
    let put = g.op("QueueEnqueueV2").inputs([queue, g.constant(1.0f32)]);
    let put = put.attr("Tcomponents", types()).build();
    let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
    let waiting = |at: &Server, peer| link(at, "receives_waiting", peer);
    std::thread::scope(|scope| {
        let step = scope.spawn(|| session.run::<f32>(next, []).unwrap());
        until("nothing waits", || waiting(&worker, "ps") == 1.0);
        assert_eq!(waiting(&ps, "worker"), 0.0);
        session.run(put, []).unwrap();
        assert_eq!(step.join().unwrap(), 2.0);
    });
    until("something waits", || waiting(&worker, "ps") == 0.0);
}

#[test]
fn a_session_that_ends_with_its_connections_is_no_loss() {
    // Sessions with other timeouts than the server have connections of their own.
    let [ps, worker] = two(options());
    for _ in 0..20 {
        exchange(&worker);
    }
    let g = Graph::new();
    let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
    session.run::<f32>(g.constant(1.0f32) + 1.0, []).unwrap();
    assert_eq!(link(&ps, "peer_losses_total", "worker"), 0.0);
}

#[test]
#[cfg(target_os = "linux")]
fn bytes_that_are_lent_count_at_who_reads_them() {
    let [ps, worker] = two(options());
    exchange(&worker);
    let bytes = (4 * MANY) as f64;
    assert!(link(&worker, "link_shared_bytes_total", "ps") >= bytes);
    assert!(link(&ps, "link_shared_bytes_total", "worker") >= bytes);
    assert!(link(&worker, "link_received_bytes_total", "ps") < bytes);
}

#[test]
fn a_task_that_is_gone_is_lost_once_for_all_its_sessions_and_then_back() {
    let [ps, worker] = two(options().shared_memory(false));
    let g = Graph::new();
    let w = g.device(on("ps"), || g.variable("w", 1.0f32));
    let open = || {
        let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
        session.run(w.initializer(), []).unwrap();
        session
    };
    let sessions = [open(), open(), open()];
    let lost = |at: &Server| value(&at.metrics(), "thalweg_peers_lost");
    assert_eq!((lost(&ps), lost(&worker)), (0.0, 0.0));
    let (cluster, address) = (ps.cluster().clone(), ps.address());
    drop(ps);
    until("the server is not lost", || lost(&worker) == 1.0);
    assert_eq!(link(&worker, "peer_losses_total", "ps"), 1.0);
    let options = options().session(SessionOptions::new().threads(1));
    let again = Server::new(cluster, "ps", 0, options).unwrap();
    assert_eq!(again.address(), address);
    until("the server does not come back", || {
        // The task has restarted, which each session reports once.
        let _ = sessions[0].run(w.initializer(), []);
        lost(&worker) == 0.0
    });
    assert_eq!(link(&worker, "peer_losses_total", "ps"), 1.0);
}

#[test]
fn values_and_parts_of_other_tasks_meet_limits_that_count() {
    let fetch = |worker: &Server| {
        let g = Graph::new();
        let many = g.device(on("ps"), || {
            g.random_uniform(vec![MANY as i64], 0.0, 1.0, DType::F32, None)
        });
        let next = g.device(on("worker"), || many * 2.0);
        let session = Session::on(worker, &g, ClusterOptions::default()).unwrap();
        session.step(next, []).map(|_| ()).unwrap_err().to_string()
    };
    let [_ps, worker] = two(options().shared_memory(false).limits(Limits {
        value_bytes: 1 << 16,
        ..Limits::default()
    }));
    let refused = fetch(&worker);
    assert!(refused.contains("value_bytes"), "{refused}");
    assert_eq!(met(&worker.metrics(), "value_bytes"), 1.0);

    let [_ps, worker] = two(options().shared_memory(false).limits(Limits {
        flight_bytes: 1 << 16,
        ..Limits::default()
    }));
    let refused = fetch(&worker);
    assert!(refused.contains("flight_bytes"), "{refused}");
    assert!(met(&worker.metrics(), "flight_bytes") >= 1.0);

    let [ps, worker] = two(options().limits(Limits {
        parts: 1,
        ..Limits::default()
    }));
    let g = Graph::new();
    let w = g.device(on("ps"), || g.variable("w", 1.0f32));
    let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
    session.run(w.initializer(), []).unwrap();
    session.step(w.read(), []).unwrap_err();
    assert_eq!(met(&ps.metrics(), "parts"), 1.0);
    assert_eq!(met(&worker.metrics(), "parts"), 0.0);
}

#[test]
fn memory_that_a_step_does_not_get_counts_as_its_limit() {
    let [_ps, worker] = two(options().limits(Limits {
        memory: 1 << 20,
        ..Limits::default()
    }));
    let g = Graph::new();
    let many = g.constant(vec![1i64 << 20]);
    let all = g.device(on("worker"), || g.fill(many, 1.0f32).square());
    let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
    let refused = session.step(all, []).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("no memory"), "{refused}");
    assert_eq!(met(&worker.metrics(), "memory"), 1.0);
}
