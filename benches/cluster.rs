//! Overhead of a cluster on one machine: a step of one remote task, a fetch of a large parameter, and asynchronous
//! training of deep MNIST by one parameter server and one or two workers. These are common benchmarks of TensorFlow's
//! distributed runtime. Every task is a process of its own.
//!
//! `cargo bench -p thalweg-benches --bench cluster` prints a line of JSON for each.

use std::error::Error;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use thalweg::dist::{ClusterOptions, ClusterSpec, Server, ServerOptions, Session as Distributed};
use thalweg::prelude::*;
use thalweg_examples::model::{deep_mnist_trained_by, synthetic_feeds};
use thalweg_tests::addresses;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Environment variable that selects a process's task: `JOB INDEX PS_HOSTS WORKER_HOSTS THREADS`.
const TASK: &str = "THALWEG_BENCH_TASK";
const BATCH: usize = 50;
const STEPS: usize = 40;
const FLOATS: i64 = 25_000_000;

fn main() -> Result<()> {
    match std::env::var(TASK) {
        Ok(task) => run_task(&task),
        Err(_) => {
            local()?;
            for threads in [1, 2] {
                run_cluster(1, threads)?;
            }
            run_cluster(1, 0)?;
            run_cluster(2, 0)
        }
    }
}

fn report(workload: &str, value: f64, unit: &str) {
    println!(r#"{{"workload":"{workload}","batch":{BATCH},"value":{value:.3},"unit":"{unit}"}}"#);
}

/// One process, without a cluster.
fn local() -> Result<()> {
    let g = Graph::new();
    let net = deep_mnist_trained_by(&g, DataFormat::Nhwc, |loss| {
        Adam::new(1e-4).minimize_counting(loss, create_global_step(&g))
    });
    let session = Session::new(&g)?;
    session.run(g.initializers(), [])?;
    let batch = synthetic_feeds(BATCH)?;
    let mut step = || session.step(net.train, net.feed(&batch)).map(|_| ());
    let speed = images(&mut step)?;
    report("deep_mnist_local", speed, "images/s");
    Ok(())
}

/// Images a second, after a few steps that are not measured.
fn images<E: Error + 'static>(step: &mut dyn FnMut() -> std::result::Result<(), E>) -> Result<f64> {
    (0..8).try_for_each(|_| step())?;
    let began = Instant::now();
    (0..STEPS).try_for_each(|_| step())?;
    Ok((STEPS * BATCH) as f64 / began.elapsed().as_secs_f64())
}

/// Processes that are killed when this is dropped.
struct Tasks(Vec<Child>);

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &mut self.0 {
            // It may have ended already.
            let _ = task.kill();
            let _ = task.wait();
        }
    }
}

/// Runs the tasks: with `threads`, the wide graph alone, on this number of the worker's threads; without, all other
/// workloads.
fn run_cluster(workers: usize, threads: usize) -> Result<()> {
    let addresses = addresses::free_addresses(workers + 1);
    let start = |job: &str, index: usize| {
        let task = format!(
            "{job} {index} {} {} {threads}",
            addresses[0],
            addresses[1..].join(",")
        );
        Command::new(std::env::current_exe()?)
            .env(TASK, task)
            .spawn()
    };
    let mut tasks = Tasks(vec![start("ps", 0)?]);
    for worker in 0..workers {
        tasks.0.push(start("worker", worker)?);
    }
    for task in tasks.0.iter_mut().skip(1) {
        let ended = task.wait()?;
        if !ended.success() {
            return Err(format!("a worker ended with {ended}").into());
        }
    }
    Ok(())
}

fn run_task(task: &str) -> Result<()> {
    let [job, index, ps, workers, threads] = task.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("{TASK} is '{task}'").into());
    };
    let cluster = ClusterSpec::from_flags(&[("ps", ps), ("worker", workers)])?;
    let index: u32 = index.parse()?;
    let count = cluster.len("worker");
    let threads: usize = threads.parse()?;
    let options = ServerOptions::listening("").session(SessionOptions::new().threads(threads));
    let server = Server::new(cluster, job, index, options)?;
    if job == "ps" {
        return Ok(server.join_workers("worker")?);
    }
    if threads > 0 {
        wide_graph(&server, threads)?;
        server.finish("ps");
        return Ok(());
    }
    if count == 1 {
        null_step(&server)?;
        fetch(&server)?;
    }
    let worker = format!("/job:worker/task:{index}");
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(1).worker_device(worker.parse()?);
    let net = g.device(setter, || {
        let step = create_global_step(&g);
        deep_mnist_trained_by(&g, DataFormat::Nhwc, |loss| {
            Adam::new(1e-4).minimize_counting(loss, step)
        })
    });
    let session = session(&server, &g)?;
    match index {
        0 => drop(session.step(g.initializers(), [])?),
        _ => {
            let made = g.all_initialized();
            while !session.run::<bool>(made, [])? {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    let batch = synthetic_feeds(BATCH)?;
    let mut step = || session.step(net.train, net.feed(&batch)).map(|_| ());
    let speed = images(&mut step)?;
    let name = format!("deep_mnist_async_1ps_{count}workers/worker{index}");
    report(&name, speed, "images/s");
    server.finish("ps");
    Ok(())
}

fn session<'g>(server: &Server, g: &'g Graph) -> Result<Distributed<'g>> {
    let options = ClusterOptions::new().device_filter("/job:ps");
    Ok(Distributed::on(server, g, options)?)
}

/// An empty step on the parameter server.
fn null_step(server: &Server) -> Result<()> {
    let g = Graph::new();
    let null = g.device("/job:ps/task:0", || g.op("NoOp").build());
    let session = session(server, &g)?;
    (0..50).try_for_each(|_| session.step(null, []).map(|_| ()))?;
    let steps = 500;
    let began = Instant::now();
    (0..steps).try_for_each(|_| session.step(null, []).map(|_| ()))?;
    let micros = began.elapsed().as_secs_f64() * 1e6 / f64::from(steps);
    report("null_step_one_remote_task", micros, "us/step");
    Ok(())
}

/// Independent branches on the worker, each after a matrix that it reads from the parameter server. They can use
/// several threads; one GEMM is too small to be split.
fn wide_graph(server: &Server, threads: usize) -> Result<()> {
    const BRANCHES: usize = 8;
    const LAYERS: usize = 50;
    const SIDE: i64 = 64;
    let g = Graph::new();
    let weights = g.device("/job:ps/task:0", || {
        let values = || g.fill([SIDE, SIDE], 1e-2f32);
        let named = |i| g.variable(&format!("w{i}"), values());
        (0..BRANCHES).map(named).collect::<Vec<_>>()
    });
    let ends: Vec<_> = g.device("/job:worker/task:0", || {
        let ends = weights.iter().map(|w| {
            let w = w.value();
            (0..LAYERS).fold(w, |x, _| x.matmul(w).tanh())
        });
        ends.map(|end| end.reduce_sum(&[0, 1], false)).collect()
    });
    let session = session(server, &g)?;
    session.run(g.initializers(), [])?;
    (0..5).try_for_each(|_| session.step(&ends, []).map(|_| ()))?;
    let began = Instant::now();
    (0..STEPS).try_for_each(|_| session.step(&ends, []).map(|_| ()))?;
    let micros = began.elapsed().as_secs_f64() * 1e6 / STEPS as f64;
    let workload = format!("wide_graph_behind_8_parameters/{threads}_threads");
    report(&workload, micros, "us/step");
    Ok(())
}

/// A variable of 100 MB on the parameter server. The worker reads it and fetches an element, or the sum, which reads
/// all of it; the client fetches all of it.
fn fetch(server: &Server) -> Result<()> {
    let g = Graph::new();
    let w = g.device("/job:ps/task:0", || {
        let zeros = g.fill([FLOATS], 0.0f32);
        g.variable("large", zeros)
    });
    let (element, sum) = g.device("/job:worker/task:0", || {
        let here = g.op("Identity").input(w.value()).output();
        let (begin, size) = (g.constant([0i32]), g.constant([1i32]));
        let element = g.op("Slice").input(here).input(begin).input(size).output();
        (element, here.reduce_sum(&[0], false))
    });
    let session = session(server, &g)?;
    session.run(w.initializer(), [])?;
    for (workload, fetched) in [
        ("fetch_100MB_parameter", element),
        ("sum_100MB_parameter", sum),
        ("fetch_100MB_parameter_whole", w.value()),
    ] {
        (0..3).try_for_each(|_| session.step(fetched, []).map(|_| ()))?;
        let times = 10;
        let began = Instant::now();
        (0..times).try_for_each(|_| session.step(fetched, []).map(|_| ()))?;
        let seconds = began.elapsed().as_secs_f64() / f64::from(times);
        report(workload, FLOATS as f64 * 4.0 / seconds / 1e9, "GB/s");
    }
    Ok(())
}
