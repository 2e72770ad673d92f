//! Sessions over the servers of a cluster, on loopback in this process: values, errors, clients.

use std::time::Duration;

use proptest::prelude::*;
use thalweg::dist::{Cause, ClusterOptions, Limits, Server, ServerOptions, Session, Timeouts};
use thalweg::graph::OutputId;
use thalweg::prelude::{Session as Local, *};
use thalweg::session::Fetch;
use thalweg::tensor::Tensor;
use thalweg_tests::random_graph::Gene;
use thalweg_tests::servers::{cluster, remote_model, server, servers, train};
use thalweg_tests::tasks::{JOB, Tasks, compare};

/// Tasks that are servers; steps are run by the first of them.
struct Servers(Vec<Server>);

impl Servers {
    fn new(count: usize, cpus: usize) -> Servers {
        let cluster = cluster(&[(JOB, count)]);
        let all = (0..count as u32).map(|i| server(&cluster, JOB, i, cpus, Timeouts::default()));
        Servers(all.collect())
    }
}

impl Tasks for Servers {
    fn run(
        &self,
        g: &Graph,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
    ) -> Result<Vec<Option<Tensor>>, String> {
        let session = SessionOptions::new().soft_placement(true);
        let options = ClusterOptions::new().session(session);
        let session = Session::on(&self.0[0], g, options).map_err(|e| e.to_string())?;
        let done = session.run_ids(fetches, feeds, &RunOptions::new());
        done.map(|(values, _)| values).map_err(|e| e.to_string())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        max_shrink_iters: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn steps_over_servers_match_the_interpreter(
        genes in proptest::collection::vec(any::<Gene>(), 1..40),
        steps in proptest::collection::vec(any::<[u8; 3]>(), 1..4),
        size in prop_oneof![Just((2, 1)), Just((4, 1)), Just((2, 2))],
    ) {
        compare(&genes, &steps, size, &Servers::new(size.0 as usize, size.1 as usize))?;
    }
}

#[test]
fn a_worker_trains_variables_of_a_parameter_server() {
    let cluster = cluster(&[("ps", 1), ("worker", 1)]);
    let all = servers(&cluster);
    let g = Graph::new();
    let line = remote_model(&g);
    let session = Session::on(&all[1], &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    let losses = train(&session, &line, 20);
    assert!(losses[19] < losses[0] * 1e-3, "{losses:?}");
    // Another session, from outside of the cluster, finds the variable.
    let other = Session::connect(&all[1].target(), &g, ClusterOptions::default()).unwrap();
    let w: f32 = other.run(line.w, []).unwrap();
    assert!((w - 3.0).abs() < 0.1, "{w}");
    // An isolated one does not.
    let isolated = ClusterOptions::new().isolated(true);
    let isolated = Session::on(&all[1], &g, isolated).unwrap();
    let error = isolated.step(line.w, []).unwrap_err();
    assert_eq!(error.cause, Cause::Uninitialized, "{error}");
}

#[test]
fn values_of_all_dtypes_and_sizes_cross_between_tasks() {
    let cluster = cluster(&[(JOB, 2)]);
    let all = servers(&cluster);
    let g = Graph::new();
    let here = |i: u32| format!("/job:worker/task:{i}");
    let feeds = [
        Tensor::vector(&[1.5f32; 1_000_003]),
        Tensor::zeros(DType::F32, &[0, 4]).unwrap(),
        Tensor::scalar(7i64),
        Tensor::strings(&[2], &["a".to_owned(), "b".repeat(100_000)]).unwrap(),
        Tensor::vector(&[true, false]),
    ];
    let outputs: Vec<(Output<'_>, Output<'_>)> = feeds
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let x = g.placeholder(&format!("x{i}"), t.dtype(), t.shape());
            // Fed values are on both tasks; values computed from them there have to cross.
            let twice = g.device(&*here(1), || g.op("Pack").inputs([x, x]).output());
            let back = g.device(&*here(0), || {
                let two = g.op("Unpack").input(twice).attr("num", 2i64);
                two.build().output(1)
            });
            (x, back)
        })
        .collect();
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let session = Session::on(&all[0], &g, ClusterOptions::default()).unwrap();
    let given: Vec<_> = (outputs.iter().zip(&feeds))
        .map(|((x, _), t)| x.feed(t.clone()))
        .collect();
    let fetches: Vec<_> = outputs.iter().map(|(_, back)| *back).collect();
    for _ in 0..3 {
        let found = session.step(&fetches, &given).unwrap();
        for (i, feed) in feeds.iter().enumerate() {
            let found = found.tensor(i).unwrap();
            assert_eq!(found.dims(), feed.dims());
            match feed.dtype() {
                DType::String => assert_eq!(found.as_strings(), feed.as_strings()),
                _ => assert_eq!(found.bytes(), feed.bytes()),
            }
        }
    }
}

#[test]
fn loops_and_functions_run_on_another_task() {
    let cluster = cluster(&[(JOB, 2)]);
    let all = servers(&cluster);
    let g = Graph::new();
    let n = g.placeholder("n", DType::I32, []);
    let doubled = g.device("/job:worker/task:1", || {
        let vars = [g.constant(0i32), g.constant(1i32)];
        g.while_loop(
            &vars,
            |_, v| v[0].less(n),
            |b, v| vec![v[0] + b.constant(1i32), v[1] * b.constant(2i32)],
        )
    });
    let sum = g.device("/job:worker/task:0", || doubled[1] + g.constant(1i32));
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let session = Session::on(&all[0], &g, ClusterOptions::default()).unwrap();
    let options = SessionOptions::new().task(JOB, 0).soft_placement(true);
    let local = Local::with_options(&g, options);
    // The other task is not one of a local session's.
    assert!(local.is_err());
    for i in [0, 1, 10] {
        let found = session.step(sum, [n.feed(i)]).unwrap();
        assert_eq!(found.scalar::<i32>(0).unwrap(), (1 << i) + 1);
    }
}

#[test]
fn a_kernel_error_names_task_node_op_and_line() {
    let cluster = cluster(&[(JOB, 2)]);
    let all = servers(&cluster);
    let g = Graph::new();
    let i = g.placeholder("i", DType::I32, [2]);
    let quotient = g.device("/job:worker/task:1", || {
        let divisor = g.constant([0i32, 1]);
        g.op("FloorDiv")
            .name("quotient")
            .input(i)
            .input(divisor)
            .output()
    });
    let sum = g.device("/job:worker/task:0", || quotient + g.constant(1i32));
    let session = Session::on(&all[0], &g, ClusterOptions::default()).unwrap();
    let feed = [i.feed([1i32, 2])];
    let outside = Session::connect(&all[0].target(), &g, ClusterOptions::default()).unwrap();
    let origin = g.snapshot().node(quotient.id().node).origin.to_string();
    assert!(origin.contains("cluster/sessions.rs:"), "{origin}");
    for run in 0..20 {
        let session = if run < 10 { &session } else { &outside };
        let error = session.step(sum, &feed).unwrap_err();
        assert_eq!(error.cause, Cause::Kernel, "{error}");
        assert_eq!(error.task, Some((JOB.to_owned(), 1)), "{error}");
        assert_eq!(error.node.as_deref(), Some("quotient"), "{error}");
        assert_eq!(error.op.as_deref(), Some("FloorDiv"), "{error}");
        assert_eq!(
            error.origin.as_ref().map(|o| o.to_string()).as_ref(),
            Some(&origin)
        );
        // The part of the other task fails too, and does not hide the root cause.
        assert!(!error.derived, "{error}");
        assert!(
            error.message.contains("Integer division by zero"),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.starts_with("/job:worker/task:1: node 'quotient'"),
            "{text}"
        );
        assert!(!text.contains("[["), "{text}");
    }
}

#[test]
fn a_device_that_no_task_has_is_an_error() {
    let cluster = cluster(&[("ps", 1), ("worker", 1)]);
    let all = servers(&cluster);
    for device in [
        "/job:ps/task:3",
        "/job:chief",
        "/job:ps/task:0/device:GPU:0",
    ] {
        let g = Graph::new();
        let w = g.device(device, || g.variable("w", 1.0f32));
        let session = Session::on(&all[1], &g, ClusterOptions::default()).unwrap();
        let error = session.step(w.initializer(), []).unwrap_err();
        assert_eq!(error.cause, Cause::Invalid, "{error}");
        assert!(error.message.contains("node 'w"), "{error}");
    }
}

#[test]
fn a_server_ends_once_all_workers_are_done() {
    let cluster = cluster(&[("ps", 1), ("worker", 2)]);
    let all = servers(&cluster);
    let [ps, first, second] = &all[..] else {
        panic!("three tasks");
    };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| ps.join_workers("worker"));
        first.finish("ps");
        // A worker that finishes twice counts once.
        first.finish("ps");
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waits.is_finished());
        second.finish("ps");
        waits.join().unwrap().unwrap();
    });
}

#[test]
fn a_session_works_inside_an_async_task() {
    let cluster = cluster(&[("ps", 1), ("worker", 1)]);
    let all = servers(&cluster);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let g = Graph::new();
        let line = remote_model(&g);
        let session = Session::on(&all[1], &g, ClusterOptions::default()).unwrap();
        session.run(g.initializers(), []).unwrap();
        assert!(train(&session, &line, 3)[2] > 0.0);
    });
}

#[test]
fn feeds_and_constants_can_be_fetched() {
    let cluster = cluster(&[("ps", 1), ("worker", 1)]);
    let all = servers(&cluster);
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let (there, folded) = g.device("/job:ps/task:0", || {
        (g.constant(7i32), g.constant(3.0f32) + 4.0)
    });
    let nothing = g.device("/job:ps/task:0", || g.op("NoOp").build());
    let session = Session::on(&all[1], &g, ClusterOptions::default()).unwrap();
    let fed = [x.feed([1.0f32, 2.0])];
    let found = session.step((x, there, folded, nothing, x), &fed).unwrap();
    assert_eq!(found.slice::<f32>(0).unwrap(), [1.0, 2.0]);
    assert_eq!(found.scalar::<i32>(1).unwrap(), 7);
    assert_eq!(found.scalar::<f32>(2).unwrap(), 7.0);
    assert_eq!(found.slice::<f32>(4).unwrap(), [1.0, 2.0]);
    assert!(session.step((), []).unwrap().is_empty());
    // The same from outside of the cluster.
    let outside = Session::connect(&all[0].target(), &g, ClusterOptions::default()).unwrap();
    let found = outside.step((x, folded), &fed).unwrap();
    assert_eq!(found.slice::<f32>(0).unwrap(), [1.0, 2.0]);
    assert_eq!(found.scalar::<f32>(1).unwrap(), 7.0);
    let error = outside.step(x, []).unwrap_err();
    assert_eq!(error.cause, Cause::Invalid, "{error}");
    assert!(error.message.contains("'x'"), "{error}");
    let error = outside.step(x, [x.feed(1i32)]).unwrap_err();
    assert_eq!(error.cause, Cause::Invalid, "{error}");
}

#[test]
fn one_session_runs_steps_of_many_threads() {
    let cluster = cluster(&[("ps", 2), ("worker", 1)]);
    let all = servers(&cluster);
    let g = Graph::new();
    let counts: Vec<Variable<'_>> = (0..2)
        .map(|i| g.device(&*format!("/job:ps/task:{i}"), || g.variable("count", 0i64)))
        .collect();
    let add: Vec<Operation<'_>> = counts.iter().map(|c| c.assign_add(1i64)).collect();
    let session = Session::on(&all[2], &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).for_each(|_| drop(session.step(&add, []).unwrap())));
        }
    });
    let found = session.step(&counts, []).unwrap();
    assert_eq!(found.scalar::<i64>(0).unwrap(), 400);
    assert_eq!(found.scalar::<i64>(1).unwrap(), 400);
}

#[test]
fn a_client_connects_and_disconnects_inside_an_async_program() {
    let all = servers(&cluster(&[("ps", 1)]));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let g = Graph::new();
        let w = g.variable("w", 2.0f32);
        let session = Session::connect(&all[0].target(), &g, ClusterOptions::default()).unwrap();
        session.run(w.initializer(), []).unwrap();
        assert_eq!(session.run::<f32>(w, []).unwrap(), 2.0);
        drop(session);
        all[0].finish("ps");
        all[0].join_workers("ps").unwrap();
    });
}

#[test]
fn evicted_plans_leave_no_parts_on_tasks() {
    let cluster = cluster(&[("ps", 1), ("worker", 1)]);
    let server_options = ServerOptions::listening("").limits(Limits {
        parts: 8,
        ..Limits::default()
    });
    let ps = Server::new(cluster.clone(), "ps", 0, server_options).unwrap();
    let worker = server(&cluster, "worker", 0, 1, Timeouts::default());
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let sum = g.device("/job:ps/task:0", || x.sum());
    let options = ClusterOptions::new().session(SessionOptions::new().plans(2));
    let session = Session::on(&worker, &g, options).unwrap();
    for n in 1..60 {
        // Parts are dropped shortly after their plans.
        let run = || session.step(sum, [x.feed(vec![1.0f32; n])]);
        let mut done = run();
        for _ in 0..100 {
            if done.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            done = run();
        }
        assert_eq!(done.unwrap().scalar::<f32>(0).unwrap(), n as f32);
    }
    drop(ps);
}
