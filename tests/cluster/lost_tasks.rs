//! Tasks of a cluster that are missing, end, or restart; steps that would wait for ever.

use std::time::{Duration, Instant};

use thalweg::dist::{Cause, ClusterOptions, ClusterSpec, Session, Timeouts};
use thalweg::prelude::*;
use thalweg::session::Cancel;
use thalweg_tests::servers::{cluster, free_addresses, remote_model, server, servers, train};
use thalweg_tests::tasks::JOB;

#[test]
fn a_missing_task_is_named_after_the_timeout() {
    let cluster = cluster(&[("ps", 2), ("worker", 1)]);
    let timeouts = Timeouts::new().connect(Duration::from_millis(300));
    let worker = server(&cluster, "worker", 0, 1, timeouts);
    let _ps = server(&cluster, "ps", 1, 1, timeouts);
    let g = Graph::new();
    let missing = g.device("/job:ps/task:0", || g.variable("missing", 1.0f32));
    let there = g.device("/job:ps/task:1", || g.variable("there", 2.0f32));
    let options = ClusterOptions::new().timeouts(timeouts);
    let session = Session::on(&worker, &g, options).unwrap();
    let error = session.step(missing.initializer(), []).unwrap_err();
    assert_eq!(error.cause, Cause::Unreachable, "{error}");
    let address = cluster.address("ps", 0).unwrap();
    let named = format!("/job:ps/task:0 at {address}");
    assert!(error.message.contains(&named), "{error}");
    // Steps that do not need it succeed.
    session.run(there.initializer(), []).unwrap();
    assert_eq!(session.run::<f32>(there, []).unwrap(), 2.0);
}

#[test]
fn a_restarted_task_is_rejoined_and_its_lost_variables_are_reported() {
    let cluster = cluster(&[("ps", 1), ("worker", 1)]);
    let timeouts = Timeouts::default();
    let ps = server(&cluster, "ps", 0, 1, timeouts);
    let worker = server(&cluster, "worker", 0, 1, timeouts);
    let g = Graph::new();
    let line = remote_model(&g);
    let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    train(&session, &line, 2);
    drop(ps);
    let x = || [line.x.feed([1.0f32, 2.0, 3.0])];
    let error = session.step(line.train, x()).unwrap_err();
    assert_eq!(error.cause, Cause::Unreachable, "{error}");
    let ps_task = Some(("ps".to_owned(), 0));
    assert_eq!(error.task, ps_task, "{error}");
    assert!(error.message.contains("/job:ps/task:0 at"), "{error}");
    let _ps = server(&cluster, "ps", 0, 1, timeouts);
    let error = session.step(line.train, x()).unwrap_err();
    assert_eq!(error.cause, Cause::Restarted, "{error}");
    assert_eq!(error.task, ps_task, "{error}");
    assert!(
        error.message.contains("/job:ps/task:0 has restarted"),
        "{error}"
    );
    let error = session.step(line.train, x()).unwrap_err();
    assert_eq!(error.cause, Cause::Uninitialized, "{error}");
    assert_eq!(error.task, ps_task, "{error}");
    assert!(error.message.contains("uninitialized value w"), "{error}");
    session.run(g.initializers(), []).unwrap();
    let losses = train(&session, &line, 20);
    assert!(losses[19] < losses[0] * 1e-3, "{losses:?}");
}

#[test]
fn steps_after_the_end_of_the_server_are_errors() {
    let cluster = cluster(&[("ps", 1), ("worker", 1)]);
    let mut all = servers(&cluster);
    let g = Graph::new();
    let line = remote_model(&g);
    let worker = all.pop().unwrap();
    let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    worker.shutdown();
    for limit in [Duration::from_millis(10), Duration::from_secs(100)] {
        let options = RunOptions::new().timeout(limit);
        let error = session.step_with(line.w, [], &options).unwrap_err();
        assert_eq!(error.cause, Cause::ShutDown, "{error}");
    }
    drop(worker);
    let error = session.step(line.w, []).unwrap_err();
    assert_eq!(error.cause, Cause::ShutDown, "{error}");
    assert!(error.message.contains("shut down"), "{error}");
}

#[test]
fn the_timeout_of_a_step_covers_waiting_for_a_missing_task() {
    let cluster = cluster(&[("ps", 1), ("worker", 1)]);
    let worker = server(&cluster, "worker", 0, 1, Timeouts::default());
    let g = Graph::new();
    let line = remote_model(&g);
    let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
    let options = RunOptions::new().timeout(Duration::from_millis(50));
    let error = session.step_with(line.w, [], &options).unwrap_err();
    assert_eq!(error.cause, Cause::Deadline, "{error}");
}

#[test]
fn an_address_without_a_task_is_an_error() {
    let g = Graph::new();
    let error = Session::connect("127.0.0.1:1", &g, ClusterOptions::default()).unwrap_err();
    assert!(error.message.contains("grpc://host:port"), "{error}");
    let timeouts = Timeouts::new().connect(Duration::from_millis(200));
    let options = ClusterOptions::new().timeouts(timeouts);
    let address = free_addresses(1).remove(0);
    let began = Instant::now();
    let target = format!("grpc://{address}");
    let error = Session::connect(&target, &g, options).unwrap_err();
    assert_eq!(error.cause, Cause::Unreachable, "{error}");
    assert!(error.message.contains(&address), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
    let twice = ClusterSpec::new([("ps", vec!["127.0.0.1:1", "127.0.0.1:1"])]);
    assert!(twice.is_err());
}

#[test]
fn a_blocked_step_ends_at_its_deadline_or_on_cancellation() {
    let cluster = cluster(&[(JOB, 2)]);
    let all = servers(&cluster);
    let g = Graph::new();
    let value = g.device("/job:worker/task:1", || {
        let queue = g
            .op("FIFOQueueV2")
            .attr("component_types", vec![DType::F32])
            .output();
        g.op("QueueDequeueV2")
            .input(queue)
            .attr("component_types", vec![DType::F32])
            .output()
    });
    let sum = g.device("/job:worker/task:0", || value + 1.0);
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let session = Session::on(&all[0], &g, ClusterOptions::default()).unwrap();
    let limit = Duration::from_millis(50);
    let error = session
        .step_with(sum, [], &RunOptions::new().timeout(limit))
        .unwrap_err();
    assert_eq!(error.cause, Cause::Deadline, "{error}");
    let cancel = Cancel::new();
    let error = std::thread::scope(|scope| {
        let options = RunOptions::new().cancelled_by(&cancel);
        let session = &session;
        let waits = scope.spawn(move || session.step_with(sum, [], &options).unwrap_err());
        std::thread::sleep(Duration::from_millis(50));
        cancel.cancel();
        waits.join().unwrap()
    });
    assert_eq!(error.cause, Cause::Cancelled, "{error}");
}
