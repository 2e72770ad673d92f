//! Synchronous training over servers of a cluster, on loopback in this process.

use std::sync::Mutex;
use std::time::Duration;

use thalweg::dist::{Cause, ClusterOptions, ClusterSpec, Server, Session, Timeouts, sync};
use thalweg::prelude::{Session as Local, *};
use thalweg::tensor::Tensor;
use thalweg::train::{SyncReplicas, Synchronized};
use thalweg_tests::servers::{cluster, server, servers};

const STEPS: i64 = 12;
const BATCH: usize = 6;

/// A small network: feeds, loss and variables.
struct Net<'g> {
    x: Output<'g>,
    y: Output<'g>,
    loss: Output<'g>,
    variables: Vec<Variable<'g>>,
}

fn net(g: &Graph) -> Net<'_> {
    let x = g.placeholder("x", DType::F32, [-1, 3]);
    let y = g.placeholder("y", DType::F32, [-1, 1]);
    let initial = |n: usize| (0..n).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<_>>();
    let first = Tensor::new(&[3, 4], &initial(12)).unwrap();
    let second = Tensor::new(&[4, 1], &initial(4)).unwrap();
    let (w, b) = (g.variable("w", first), g.variable("b", vec![0.1f32; 4]));
    let v = g.variable("v", second);
    let hidden = (x.matmul(w) + b).tanh();
    Net {
        x,
        y,
        loss: (hidden.matmul(v) - y).square().mean(),
        variables: vec![w, b, v],
    }
}

/// The batch of a worker in a step.
fn batch(worker: u32, step: i64, size: usize) -> [Tensor; 2] {
    let at = |i: usize| ((i as f32) + 10.0 * worker as f32 + 100.0 * step as f32).sin();
    let x: Vec<f32> = (0..size * 3).map(at).collect();
    let y: Vec<f32> = x
        .chunks(3)
        .map(|r| r[0] - 2.0 * r[1] + 0.5 * r[2])
        .collect();
    [
        Tensor::new(&[size, 3], &x).unwrap(),
        Tensor::new(&[size, 1], &y).unwrap(),
    ]
}

/// The variables that one process learns from the batches of all workers at once.
fn one_process<'g>(g: &'g Graph, optimizer: impl Optimizer<'g>, workers: u32) -> Vec<Vec<f32>> {
    let net = net(g);
    let train = optimizer.minimize(net.loss);
    let session = Local::new(g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for step in 0..STEPS {
        let all: Vec<[Tensor; 2]> = (0..workers).map(|w| batch(w, step, BATCH)).collect();
        let joined = |i: usize, width: usize| {
            let values: Vec<f32> = all
                .iter()
                .flat_map(|b| b[i].to_vec::<f32>().unwrap())
                .collect();
            Tensor::new(&[values.len() / width, width], &values).unwrap()
        };
        let feeds = [net.x.feed(joined(0, 3)), net.y.feed(joined(1, 1))];
        session.run(train, feeds).unwrap();
    }
    let values = session.step(&net.variables, []).unwrap();
    (0..net.variables.len())
        .map(|i| values.slice::<f32>(i).unwrap().to_vec())
        .collect()
}

fn build<'g>(
    g: &'g Graph,
    own: &str,
    workers: u32,
    aggregate: u32,
    adam: bool,
) -> (Net<'g>, Synchronized<'g>) {
    let setter = ReplicaDeviceSetter::new(1).worker_device(own.parse().unwrap());
    g.device(setter, || {
        let step = create_global_step(g);
        let net = net(g);
        let sync = match adam {
            true => SyncReplicas::new(Adam::new(0.05), workers)
                .aggregate(aggregate)
                .minimize(net.loss, step),
            false => SyncReplicas::new(GradientDescent::new(0.1), workers)
                .aggregate(aggregate)
                .minimize(net.loss, step),
        };
        assert!(g.errors().is_empty(), "{:?}", g.errors());
        (net, sync)
    })
}

fn options() -> ClusterOptions {
    let timeouts = Timeouts::new()
        .connect(Duration::from_secs(5))
        .worker_rejoin(Duration::from_secs(1));
    ClusterOptions::new()
        .device_filter("/job:ps")
        .timeouts(timeouts)
}

/// Works as a worker until the training is over, or for `most` turns; returns the number of turns.
fn work(server: &Server, workers: u32, aggregate: u32, adam: bool, most: usize) -> usize {
    let g = Graph::new();
    let task = server.task().1;
    let (net, all) = build(
        &g,
        &format!("/job:worker/task:{task}"),
        workers,
        aggregate,
        adam,
    );
    let session = Session::on(server, &g, options()).unwrap();
    if task == 0 {
        session.run(g.initializers(), []).unwrap();
    }
    let mut step = 0;
    for turn in 0..most {
        let [x, y] = batch(task, step, BATCH);
        let feeds = [net.x.feed(x), net.y.feed(y)];
        match sync::give::<f32>(&session, &all, task, net.loss, feeds).unwrap() {
            Some((_, at)) => step = at + 1,
            None => return turn,
        }
    }
    most
}

fn coordinate(server: &Server, workers: u32, aggregate: u32, adam: bool) -> Vec<Vec<f32>> {
    let g = Graph::new();
    let (net, all) = build(&g, "/job:ps/task:0", workers, aggregate, adam);
    let session = Session::on(server, &g, options()).unwrap();
    sync::coordinate(server, &session, &all, "worker", STEPS).unwrap();
    let step = session.step(all.global_step, []).unwrap();
    assert_eq!(step.scalar::<i64>(0).unwrap(), STEPS);
    let values = session.step(&net.variables, []).unwrap();
    (0..net.variables.len())
        .map(|i| values.slice::<f32>(i).unwrap().to_vec())
        .collect()
}

#[test]
fn synchronous_workers_match_one_process_with_all_batches() {
    for (workers, adam) in [(1, true), (2, true), (3, false), (3, true)] {
        let tasks = servers(&cluster(&[("ps", 1), ("worker", workers as usize)]));
        let found = std::thread::scope(|scope| {
            for server in &tasks[1..] {
                scope.spawn(move || work(server, workers, workers, adam, usize::MAX));
            }
            coordinate(&tasks[0], workers, workers, adam)
        });
        let g = Graph::new();
        let expected = match adam {
            true => one_process(&g, Adam::new(0.05), workers),
            false => one_process(&g, GradientDescent::new(0.1), workers),
        };
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            let near = (found - expected).abs() <= 1e-5 * (1.0 + expected.abs());
            assert!(
                near,
                "{workers} workers, Adam {adam}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn a_leaving_worker_does_not_lose_an_update() {
    let spec: ClusterSpec = cluster(&[("ps", 1), ("worker", 3)]);
    let start = |job: &str, task: u32| server(&spec, job, task, 1, Timeouts::default());
    let (ps, stays) = (start("ps", 0), [start("worker", 0), start("worker", 1)]);
    let goes = Mutex::new(Some(start("worker", 2)));
    std::thread::scope(|scope| {
        let turns: Vec<_> = stays
            .iter()
            .map(|s| scope.spawn(move || work(s, 3, 3, true, usize::MAX)))
            .collect();
        scope.spawn(|| {
            let server = goes.lock().unwrap().take().unwrap();
            assert_eq!(work(&server, 3, 3, true, 4), 4);
        });
        coordinate(&ps, 3, 3, true);
        let turns: usize = turns.into_iter().map(|t| t.join().unwrap()).sum();
        // 3 gradients for each update, of which the third worker gave 4.
        assert_eq!(turns, 3 * STEPS as usize - 4);
    });
}

#[test]
fn with_fewer_gradients_than_workers_the_slowest_are_dropped() {
    let tasks = servers(&cluster(&[("ps", 1), ("worker", 3)]));
    std::thread::scope(|scope| {
        // One has a session, and never takes its turns.
        let idle = scope.spawn(|| {
            let g = Graph::new();
            let (_, all) = build(&g, "/job:worker/task:2", 3, 2, false);
            let session = Session::on(&tasks[3], &g, options()).unwrap();
            while session
                .step(all.global_step, [])
                .map_or(0, |s| s.scalar(0).unwrap())
                < STEPS
            {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        for server in &tasks[1..3] {
            scope.spawn(move || work(server, 3, 2, false, usize::MAX));
        }
        coordinate(&tasks[0], 3, 2, false);
        idle.join().unwrap();
    });
}

#[test]
fn a_server_ending_after_all_workers_is_no_error() {
    let spec = cluster(&[("ps", 2), ("worker", 1)]);
    let start = |job: &str, task: u32| server(&spec, job, task, 1, Timeouts::default());
    let (first, worker) = (start("ps", 0), start("worker", 0));
    let second = Mutex::new(Some(start("ps", 1)));
    fn on_two<'g>(g: &'g Graph, own: &str) -> (Net<'g>, Synchronized<'g>) {
        let setter = ReplicaDeviceSetter::new(2).worker_device(own.parse().unwrap());
        g.device(setter, || {
            let step = create_global_step(g);
            let net = net(g);
            let sync = SyncReplicas::new(GradientDescent::new(0.1), 1).minimize(net.loss, step);
            (net, sync)
        })
    }
    std::thread::scope(|scope| {
        let coordinated = scope.spawn(|| {
            let g = Graph::new();
            let (_, all) = on_two(&g, "/job:ps/task:0");
            let session = Session::on(&first, &g, options()).unwrap();
            let mut coordinator = sync::Coordinator::new(&first, &all, "worker").unwrap();
            loop {
                match coordinator.update(&session) {
                    Ok(Some(_)) => {}
                    Ok(None) => return,
                    // The worker initializes the variables.
                    Err(e) if e.cause == Cause::Uninitialized => {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    Err(e) => panic!("{e}"),
                }
            }
        });
        let g = Graph::new();
        let (net, all) = on_two(&g, "/job:worker/task:0");
        let session = Session::on(&worker, &g, options()).unwrap();
        session.run(g.initializers(), []).unwrap();
        // The coordinator is running.
        let [x, y] = batch(0, 0, BATCH);
        let feeds = [net.x.feed(x), net.y.feed(y)];
        let given = sync::give::<f32>(&session, &all, 0, net.loss, feeds).unwrap();
        assert!(given.is_some());
        worker.finish("ps");
        drop(second.lock().unwrap().take());
        coordinated.join().unwrap();
    });
}
