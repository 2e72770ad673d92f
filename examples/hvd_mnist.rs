//! Horovod's quick start: deep MNIST on several ranks, which average their gradients.
//!
//! ```text
//! cargo build --release -p thalweg-examples -p thalweg-cli --bins
//! target/release/thalweg launch hvd -np 2 -- hvd_mnist
//! ```
//!
//! Options: `--steps N` of all ranks together (2000), `--checkpoints FOLDER`, `--test-images N` (all 10,000).

use std::error::Error;

use thalweg::data::Mnist;
use thalweg::hvd::{Hvd, ReduceOp};
use thalweg::prelude::*;
use thalweg::train::hooks::{LoggingTensorHook, StopAtStepHook};
use thalweg_examples::model::{deep_mnist_trained_by, feeds};
use thalweg_examples::output;

const BATCH: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (mut steps, mut folder, mut most) = (2000, None, usize::MAX);
    while let Some(flag) = args.next() {
        match (&*flag, args.next()) {
            ("--steps", Some(n)) => steps = n.parse()?,
            ("--checkpoints", Some(path)) => folder = Some(path),
            ("--test-images", Some(n)) => most = n.parse()?,
            _ => {
                let usage = "usage: hvd_mnist [--steps N] [--checkpoints FOLDER] [--test-images N]";
                return Err(usage.into());
            }
        }
    }

    // Horovod: meet the other ranks.
    let hvd = Hvd::init()?;

    let g = Graph::new();
    let step = create_global_step(&g);
    let net = deep_mnist_trained_by(&g, DataFormat::Nhwc, |loss| {
        // Horovod: the rate grows with the number of ranks, as the batch does.
        let optimizer = Adam::new(1e-4 * hvd.size() as f32);
        // Horovod: gradients are averaged over all ranks.
        hvd.distributed(optimizer).minimize_counting(loss, step)
    });

    let told = [("step", step.value().id()), ("loss", net.loss.id())];
    let mut session = MonitoredTrainingSession::new(&g)
        // Horovod: all ranks begin with the values of rank 0.
        .hook(hvd.broadcast_hook(0))
        // Horovod: the number of steps is divided among the ranks.
        .hook(StopAtStepHook::last_step(steps / hvd.size() as i64));
    if hvd.rank() == 0 {
        session = session.hook(LoggingTensorHook::every_steps(told, 100));
        // Horovod: rank 0 alone saves checkpoints, so that ranks do not spoil each other's.
        if let Some(folder) = &folder {
            session = session.checkpoint_dir(folder);
        }
    } else {
        session = session.quiet();
    }
    // Each rank has its share of the cores.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = SessionOptions::new().threads((cores / hvd.local_size()).max(1));
    // Horovod: the session is one of the ranks.
    let options = hvd.session(options);
    let mut session = session.start(|| Session::with_options(&g, options.clone()))?;

    let mnist = Mnist::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"))?;
    // Each rank has its images in an order of its own.
    let mut batches = mnist.train.batches(BATCH, hvd.rank() as u64)?;
    let mut batch = feeds(BATCH, 0.5)?;
    while !session.should_stop() {
        let [images, labels, _] = &mut batch;
        batches.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        session.run(net.train, net.feed(&batch))?;
    }

    let accuracy: f32 = accuracy(&hvd, &mnist, most, |values| {
        Ok(session.session().run(net.accuracy, net.feed(values))?)
    })?;
    if hvd.rank() == 0 {
        output::line(format_args!(
            "{:.2}% of the test images are recognized",
            100.0 * accuracy
        ));
    }
    Ok(session.close()?)
}

/// Accuracy on the first test images; each rank evaluates its share.
fn accuracy(
    hvd: &Hvd,
    mnist: &Mnist,
    most: usize,
    part: impl Fn(&[Tensor; 3]) -> Result<f32, Box<dyn Error>>,
) -> Result<f32, Box<dyn Error>> {
    let (mut found, mut seen) = (0.0, 0.0);
    let mut values = feeds(BATCH, 1.0)?;
    let mut all = mnist.test.batches(BATCH, 0)?;
    for number in 0..mnist.test.len().min(most).max(BATCH) / BATCH {
        let [images, labels, _] = &mut values;
        all.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        if number % hvd.size() == hvd.rank() {
            found += part(&values)?;
            seen += 1.0;
        }
    }
    let sums = hvd.allreduce(Tensor::vector(&[found, seen]), ReduceOp::Sum)?;
    let sums = sums.as_slice::<f32>()?;
    Ok(sums[0] / sums[1])
}
