//! Deep MNIST between parameter servers and workers: every worker is a process that builds the same
//! graph, with the variables on the servers, and trains them with its own batches.

mod flags;
#[path = "../support/mod.rs"]
mod support;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use flags::{Flags, Job};
use support::model::{DeepMnist, deep_mnist_trained_by, falling_rate, feeds, synthetic_feeds};
use support::report::print;
use thalweg::dist::{ClusterOptions, ClusterSpec, Server, ServerOptions, Session};
use thalweg::prelude::*;
use thalweg::train::data::{Mnist, Split};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Images of a test that are looked at in one step.
const TEST_BATCH: usize = 200;
/// How often a worker looks whether worker 0 has made the variables.
const LOOK: Duration = Duration::from_millis(100);
/// Steps of a benchmark that come before the measured ones.
const WARMUP: u64 = 8;

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<()> {
    let jobs = [("ps", &*flags.ps_hosts), ("worker", &*flags.worker_hosts)];
    let cluster = ClusterSpec::from_flags(&jobs)?;
    let mut options = ServerOptions::listening("");
    options.session.threads = flags.threads;
    let server = Server::new(cluster, flags.job.name(), flags.task, options)?;
    if flags.job == Job::Ps {
        return Ok(server.join_workers("worker")?);
    }
    let done = work(flags, &server);
    // Also where it has failed: the servers then do not wait for it.
    server.finish("ps");
    done
}

fn work(flags: &Flags, server: &Server) -> Result<()> {
    let g = Graph::new();
    // Each worker drops features of its own; the weights are worker 0's.
    g.set_seed((flags.seed + flags.task * 1000).into());
    let servers = server.cluster().len("ps") as u32;
    let worker = format!("/job:worker/task:{}", flags.task);
    let setter = ReplicaDeviceSetter::new(servers)
        .worker_device(worker.parse()?)
        .strategy(Greedy::by_bytes(servers));
    let (net, step) = g.device(setter, || {
        let step = create_global_step(&g);
        let net = deep_mnist_trained_by(&g, flags.data_format, |loss| minimize(flags, loss, step));
        (net, step)
    });
    let mut options = ClusterOptions::default();
    // The other workers have nothing that this one needs.
    options.device_filters = vec!["/job:ps".to_owned()];
    let session = Session::on(server, &g, options)?;
    if flags.task == 0 {
        session.run(g.initializers(), [])?;
    } else {
        wait_for_variables(&session)?;
    }
    if flags.benchmark > 0 {
        return benchmark(flags, &session, &net);
    }
    train(flags, &session, &net, step)
}

/// Waits until worker 0 has made the variables.
fn wait_for_variables(session: &Session<'_>) -> Result<()> {
    let made = session.graph().initialized();
    loop {
        let found = session.run(&made, [])?;
        let mut missing = 0;
        for i in 0..made.len() {
            missing += usize::from(!found.scalar::<bool>(i)?);
        }
        if missing == 0 {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

/// Makes the loss smaller by Adam; the updates of all workers are counted together.
fn minimize<'g>(flags: &Flags, loss: Output<'g>, step: Variable<'g>) -> Operation<'g> {
    let falling = (flags.train_steps as f64 * flags.decay).round() as u32;
    if flags.benchmark > 0 || falling == 0 {
        return Adam::new(flags.learning_rate).minimize_counting(loss, step);
    }
    let rate = falling_rate(step, flags.learning_rate, flags.train_steps, falling);
    Adam::new(rate).minimize_counting(loss, step)
}

fn train<'g>(
    flags: &Flags,
    session: &Session<'g>,
    net: &DeepMnist<'g>,
    step: Variable<'g>,
) -> Result<()> {
    let bundled = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/mnist");
    let mnist = Mnist::load(flags.data_dir.clone().unwrap_or_else(bundled))?;
    let seed = flags.seed + flags.task;
    let mut batches = mnist.train.batches(flags.batch_size, seed.into())?;
    let mut batch = feeds(flags.batch_size, 0.5)?;
    let (mut done, mut own, mut sum) = (0, 0, 0.0);
    let mut began = Instant::now();
    while done < flags.train_steps {
        let [images, labels, _] = &mut batch;
        batches.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        let found = session.run((net.train, net.loss, step), net.feed(&batch))?;
        let loss = found.scalar::<f32>(1)?;
        if !loss.is_finite() {
            return Err(format!("the loss is {loss}: try a lower --learning_rate").into());
        }
        done = u64::try_from(found.scalar::<i64>(2)?)?;
        own += 1;
        sum += f64::from(loss);
        if own % flags.display_every == 0 && !flags.json {
            let shown = flags.display_every as f64;
            let speed = shown * flags.batch_size as f64 / began.elapsed().as_secs_f64();
            println!("step {done}: loss {:.4}, {speed:.0} images/s", sum / shown);
            (sum, began) = (0.0, Instant::now());
        }
    }
    if flags.task == 0 {
        let accuracy = accuracy(session, net, &mnist.test)?;
        let name = "dist_deep_mnist_test_accuracy";
        print(
            flags.json,
            flags.batch_size,
            &[(name, accuracy, "fraction")],
        );
    }
    Ok(())
}

/// The part of the images whose class is found.
fn accuracy<'g>(session: &Session<'g>, net: &DeepMnist<'g>, split: &Split) -> Result<f64> {
    let (mut found, mut seen) = (0.0, 0);
    for chunk in split.chunks(TEST_BATCH)? {
        let mut batch = feeds(chunk.len(), 1.0)?;
        let [images, labels, _] = &mut batch;
        chunk.images_into(images.as_mut_slice()?)?;
        chunk.one_hot_into(labels.as_mut_slice()?)?;
        let part = session.run(net.accuracy, net.feed(&batch))?;
        found += f64::from(part.scalar::<f32>(0)?) * chunk.len() as f64;
        seen += chunk.len();
    }
    Ok(found / seen.max(1) as f64)
}

fn benchmark<'g>(flags: &Flags, session: &Session<'g>, net: &DeepMnist<'g>) -> Result<()> {
    let batch = synthetic_feeds(flags.batch_size)?;
    for _ in 0..WARMUP {
        session.run(net.train, net.feed(&batch))?;
    }
    let began = Instant::now();
    for _ in 0..flags.benchmark {
        session.run(net.train, net.feed(&batch))?;
    }
    let images = flags.benchmark as f64 * flags.batch_size as f64;
    let name = format!("dist_deep_mnist/worker{}", flags.task);
    let speed = images / began.elapsed().as_secs_f64();
    print(flags.json, flags.batch_size, &[(&name, speed, "images/s")]);
    Ok(())
}
