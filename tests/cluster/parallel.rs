//! Data parallelism over servers and workers of this process: every mode of variable updates learns the same as one
//! device with all batches at once.

use thalweg::dist::{Server, Timeouts};
use thalweg::layers::{Initializer, VariableScopes};
use thalweg::ops::Variable;
use thalweg::parallel::{DataParallel, Decay, Process, Reduction, Tower, VariableUpdate};
use thalweg::prelude::*;
use thalweg::tensor::Tensor;
use thalweg_tests::servers::{cluster, server};

const STEPS: i64 = 8;
/// Images of a worker in a step.
const BATCH: usize = 8;

fn network<'g>(tower: &Tower<'g>, x: Output<'g>) -> Output<'g> {
    let g = tower.graph();
    let weight = |name: &str, dims: [usize; 2], value: f64| {
        let initial: Vec<f32> = (0..dims[0] * dims[1])
            .map(|i| (value * (i as f64 + 1.0)).sin() as f32)
            .collect();
        let initial = Initializer::Tensor(Tensor::new(&dims, &initial).unwrap());
        g.get_variable(name, dims).initializer(initial).build()
    };
    let (first, second) = (weight("first", [3, 6], 0.7), weight("second", [6, 1], 1.3));
    let x = tower.part(x);
    let wanted = x.reduce_sum(&[1], true) * 0.5;
    (x.matmul(first).tanh().matmul(second) - wanted)
        .square()
        .mean()
}

/// The joint batch of some workers in a step; each worker's batch is a part of it.
fn batch(workers: std::ops::Range<u32>, step: i64) -> Tensor {
    let of = |worker: u32| {
        let at = move |i: usize| (i as f32 + 10.0 * worker as f32 + 100.0 * step as f32).sin();
        (0..BATCH * 3).map(at)
    };
    let values: Vec<f32> = workers.flat_map(of).collect();
    Tensor::new(&[values.len() / 3, 3], &values).unwrap()
}

fn optimizer() -> Momentum<'static> {
    Momentum::new(0.05, 0.9)
}

fn recipe(parallel: DataParallel) -> DataParallel {
    parallel.decay(Decay::new(0.01)).clip(0.5)
}

/// The losses of each step of a worker, and the variables at the end, by their names in a checkpoint.
type Learned = (Vec<f32>, Vec<(String, Vec<f32>)>);

fn learn(
    process: &Process,
    parallel: DataParallel,
    batch: impl Fn(i64) -> Tensor,
) -> Option<Learned> {
    let g = Graph::new();
    let rows = batch(0).dims()[0];
    let x = g.placeholder("x", DType::F32, [rows as i64, 3]);
    let training = recipe(parallel)
        .on(process)
        .build(&g, |_| optimizer(), |tower| network(tower, x))
        .unwrap();
    let mut run = process.start(&g, &training, |s| s.quiet()).unwrap()?;
    let mut losses = Vec::new();
    let mut step = 0;
    while step < STEPS {
        let feeds = [x.feed(batch(step))];
        let (loss, at) = run.step::<f32>(training.loss, feeds).unwrap().unwrap();
        losses.push(loss);
        step = at + 1;
    }
    let own = |v: &&(String, Variable<'_>)| v.0.ends_with("first") || v.0.ends_with("second");
    let value = |(name, v): &(String, Variable<'_>)| {
        let name = name.rsplit('/').next().unwrap().to_owned();
        (name, g.output(v.value().id()))
    };
    let wanted: Vec<_> = training.saved.iter().filter(own).map(value).collect();
    // A worker has pushed its gradients before the update of its last turn.
    while run.fetch::<i64>(training.global_step, []).unwrap() < STEPS {
        std::thread::yield_now();
    }
    let mut values = Vec::new();
    for (name, value) in wanted {
        values.push((name, run.fetch::<Vec<f32>>(value, []).unwrap()));
    }
    run.close().unwrap();
    Some((losses, values))
}

fn process(server: Server) -> Process {
    Process::of(server, SessionOptions::new())
}

/// Trains in a cluster whose servers and workers are threads of this process; returns each worker's result.
fn in_cluster(parallel: &DataParallel, servers: usize, workers: usize) -> Vec<Learned> {
    let spec = cluster(&[("ps", servers), ("worker", workers)]);
    let start =
        |job: &str, task: usize| process(server(&spec, job, task as u32, 2, Timeouts::default()));
    let ps: Vec<Process> = (0..servers).map(|t| start("ps", t)).collect();
    let all: Vec<Process> = (0..workers).map(|t| start("worker", t)).collect();
    std::thread::scope(|scope| {
        for process in &ps {
            scope.spawn(|| learn(process, parallel.clone(), |step| batch(0..1, step)));
        }
        let spawn = |(w, process)| {
            let parallel = parallel.clone();
            scope.spawn(move || {
                let w = w as u32;
                learn(process, parallel, |step| batch(w..w + 1, step)).unwrap()
            })
        };
        let threads: Vec<_> = all.iter().enumerate().map(spawn).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

fn one_process(workers: u32) -> Learned {
    let process = Process::alone(SessionOptions::new());
    let parallel = DataParallel::new(VariableUpdate::Independent);
    learn(&process, parallel, |step| batch(0..workers, step)).unwrap()
}

fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a - b).abs() <= 1e-5 * b.abs().max(1.0),
            "{what}: {a}, not {b}"
        );
    }
}

#[test]
fn synchronous_workers_match_one_device_with_all_batches() {
    for (servers, workers, towers) in [(1, 1, 1), (2, 2, 1), (2, 3, 2)] {
        let expected = one_process(workers as u32);
        for update in [
            VariableUpdate::ParameterServer,
            VariableUpdate::DistributedReplicated,
        ] {
            let what = format!("{update}, {servers} servers, {workers} workers, {towers} towers");
            let parallel = DataParallel::new(update).towers(towers);
            let all = in_cluster(&parallel, servers, workers);
            let mean = |step: usize| all.iter().map(|w| w.0[step]).sum::<f32>() / workers as f32;
            let losses: Vec<f32> = (0..STEPS as usize).map(mean).collect();
            assert_close(&losses, &expected.0, &what);
            for (name, value) in &all[0].1 {
                let (_, wanted) = expected.1.iter().find(|e| e.0 == *name).unwrap();
                assert_close(value, wanted, &what);
            }
        }
    }
}

#[test]
fn one_asynchronous_worker_matches_one_device() {
    let expected = one_process(1);
    for update in [
        VariableUpdate::ParameterServer,
        VariableUpdate::DistributedReplicated,
    ] {
        for towers in [1, 2] {
            let parallel = DataParallel::new(update).towers(towers).in_step(false);
            let all = in_cluster(&parallel, 2, 1);
            assert_close(&all[0].0, &expected.0, update.name());
        }
    }
}

#[test]
fn a_workers_metrics_have_the_loss_of_its_newest_step() {
    for in_step in [true, false] {
        let spec = cluster(&[("ps", 1), ("worker", 1)]);
        let start = |job| server(&spec, job, 0, 1, Timeouts::default());
        let (ps, worker) = (start("ps"), start("worker"));
        let gauges = [ps.training(), worker.training()];
        let (ps, worker) = (process(ps), process(worker));
        let parallel = DataParallel::new(VariableUpdate::ParameterServer).in_step(in_step);
        let learn = |process| learn(process, parallel.clone(), |step| batch(0..1, step));
        let (losses, _) = std::thread::scope(|scope| {
            scope.spawn(|| learn(&ps));
            learn(&worker).unwrap()
        });
        let newest = losses.last().map(|loss| (f64::from(*loss), STEPS - 1));
        assert_eq!(gauges[1].newest(), newest);
        assert_eq!(gauges[0].newest(), None);
    }
}

#[test]
fn a_gradient_sum_is_the_mean_times_the_number_of_workers() {
    // Without a decay and clipping, a sum of n gradients is their mean at n times the rate.
    let losses = |reduction, rate: f32| {
        let spec = cluster(&[("ps", 1), ("worker", 2)]);
        let start = |job: &str, task| process(server(&spec, job, task, 1, Timeouts::default()));
        let all = [start("ps", 0), start("worker", 0), start("worker", 1)];
        let learn = |process: &Process, w: u32| {
            let g = Graph::new();
            let x = g.placeholder("x", DType::F32, [BATCH as i64, 3]);
            let training = DataParallel::new(VariableUpdate::ParameterServer)
                .reduction(reduction)
                .on(process)
                .build(
                    &g,
                    |_| GradientDescent::new(rate),
                    |tower| network(tower, x),
                )
                .unwrap();
            let mut run = process.start(&g, &training, |s| s.quiet()).unwrap()?;
            let mut losses = Vec::new();
            for at in 0..STEPS {
                let feeds = [x.feed(batch(w..w + 1, at))];
                losses.push(run.step::<f32>(training.loss, feeds).unwrap().unwrap().0);
            }
            drop(run);
            Some(losses)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| learn(&all[0], 0));
            let other = scope.spawn(|| learn(&all[2], 1));
            let own = learn(&all[1], 0).unwrap();
            other.join().unwrap();
            own
        })
    };
    assert_close(
        &losses(Reduction::Sum, 0.02),
        &losses(Reduction::Mean, 0.04),
        "two workers",
    );
}

#[test]
fn synchronous_workers_wait_for_each_other_and_trace_their_steps() {
    let spec = cluster(&[("ps", 1), ("worker", 2)]);
    let start = |job: &str, task| process(server(&spec, job, task, 1, Timeouts::default()));
    let all = [start("ps", 0), start("worker", 0), start("worker", 1)];
    let work = |process: &Process| {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [BATCH as i64, 3]);
        let parallel = DataParallel::new(VariableUpdate::DistributedReplicated).on(process);
        let training = parallel
            .build(&g, |_| optimizer(), |tower| network(tower, x))
            .unwrap();
        let mut run = process.start(&g, &training, |s| s.quiet()).unwrap()?;
        let feeds = [x.feed(batch(0..1, 0))];
        run.wait_for_workers(2, std::time::Duration::from_secs(60))
            .unwrap();
        let trace = run.traced(&feeds).unwrap();
        run.wait_for_workers(2, std::time::Duration::from_secs(60))
            .unwrap();
        run.close().unwrap();
        Some(trace)
    };
    let traces = std::thread::scope(|scope| {
        scope.spawn(|| work(&all[0]));
        let other = scope.spawn(|| work(&all[2]));
        let own = work(&all[1]).unwrap();
        [own, other.join().unwrap().unwrap()]
    });
    for (trace, task) in traces.iter().zip([
        "/job:worker/replica:0/task:0",
        "/job:worker/replica:0/task:1",
    ]) {
        let computed = |op: &str, on: &str| {
            let mut events = trace.events.iter();
            events.any(|e| e.op == op && e.device.contains(on))
        };
        assert!(
            computed("MatMul", task) || computed("_FusedMatMul", task),
            "{task}"
        );
        assert!(computed("_TurnGive", "/job:ps"), "{task}");
    }
}

#[test]
fn synchronous_workers_wait_for_each_other_after_a_restore() {
    let folder = std::env::temp_dir().join(format!("thalweg-parallel-{}", std::process::id()));
    for (in_step, begins) in [(false, 0), (false, 1), (true, 2), (true, 3)] {
        let spec = cluster(&[("ps", 1), ("worker", 1)]);
        let start = |job: &str| process(server(&spec, job, 0, 1, Timeouts::default()));
        let (ps, worker) = (start("ps"), start("worker"));
        let work = |process: &Process| {
            let g = Graph::new();
            let x = g.placeholder("x", DType::F32, [BATCH as i64, 3]);
            let parallel = DataParallel::new(VariableUpdate::ParameterServer);
            let training = parallel
                .in_step(in_step)
                .on(process)
                .build(&g, |_| optimizer(), |tower| network(tower, x))
                .unwrap();
            let mut run = process
                .start(&g, &training, |s| s.quiet().checkpoint_dir(&folder))
                .unwrap()?;
            run.wait_for_workers(1, std::time::Duration::from_secs(60))
                .unwrap();
            let feeds = [x.feed(batch(0..1, 0))];
            let (_, step) = run.step::<f32>(training.loss, &feeds).unwrap().unwrap();
            while run.fetch::<i64>(training.global_step, []).unwrap() <= step {
                std::thread::yield_now();
            }
            run.close().unwrap();
            Some(step)
        };
        let step = std::thread::scope(|scope| {
            scope.spawn(|| work(&ps));
            work(&worker).unwrap()
        });
        assert_eq!(step, begins, "in step: {in_step}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
