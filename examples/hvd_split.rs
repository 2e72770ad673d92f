//! Deep MNIST with data and model parallelism. Each rank has all weights of the convolutions, which are few, and images
//! of its own. The weights of the dense layers, which are many, are split over ranks.
//!
//! ```text
//! cargo build --release -p thalweg-examples -p thalweg-cli --bins
//! target/release/thalweg launch hvd -np 2 -- hvd_split
//! ```

use std::error::Error;
use std::time::Instant;

use clap::Parser;
use thalweg::data::{Mnist, SIDE};
use thalweg::hvd::{Hvd, ReduceOp};
use thalweg::layers::{conv2d, losses, max_pool};
use thalweg::prelude::*;
use thalweg_examples::output;
use thalweg_examples::split_layers::SplitLayers;

/// Trains deep MNIST with dense layers that are split over ranks, or with whole ones, and prints the traffic.
#[derive(Parser)]
struct Flags {
    /// Steps, each of a batch of all ranks together.
    #[arg(long, default_value_t = 1000)]
    steps: usize,
    /// Images of all ranks together in a step.
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// Number of test images.
    #[arg(long, default_value_t = 10_000)]
    test_images: usize,
    /// Keeps all weights on each rank: data parallelism alone.
    #[arg(long)]
    whole: bool,
}

const FEATURES: usize = 7 * 7 * 64;
const UNITS: usize = 1024;
const CLASSES: usize = 10;
/// Steps before the measured ones.
const WARM_UP: usize = 10;

/// The network and training op of a rank.
struct Network<'g> {
    images: Output<'g>,
    labels: Output<'g>,
    keep_prob: Output<'g>,
    train: Operation<'g>,
    accuracy: Output<'g>,
    /// Variables that are the same on all ranks.
    whole: Vec<Variable<'g>>,
}

/// Features `[n, 3136]` of images `[n, 784]`.
fn convolutions(images: Output<'_>) -> Output<'_> {
    let block = |x, channels| {
        let x = conv2d(channels, 5).padding(Padding::Same).on(x).relu();
        max_pool(2, 2).on(x)
    };
    let side = SIDE as i32;
    let x = block(images.reshape([-1, side, side, 1]), 32);
    block(x, 64).reshape([-1, FEATURES as i32])
}

/// Logits, and the variables of which each rank has a part.
fn dense_layers<'g>(
    x: Output<'g>,
    keep_prob: Output<'g>,
    split: SplitLayers,
) -> Result<(Output<'g>, Vec<Variable<'g>>), String> {
    let g = x.graph();
    let share = split.share(UNITS)? as i32;
    let weights = |name: &str, dims: [i32; 2]| {
        g.variable(name, g.truncated_normal(dims, 0.0, 0.1, DType::F32, None))
    };
    let first = weights("fc1/weights", [FEATURES as i32, share]);
    let first_bias = g.variable("fc1/biases", vec![0.1f32; share as usize]);
    let second = weights("fc2/weights", [share, CLASSES as i32]);
    let second_bias = g.variable("fc2/biases", vec![0.1f32; CLASSES]);
    let hidden = split.by_columns(x, first.value(), first_bias.value());
    let hidden = hidden.relu().dropout(keep_prob, None);
    let logits = split.by_rows(hidden, second.value(), second_bias.value(), CLASSES);
    Ok((logits, vec![first, first_bias, second]))
}

fn network<'g>(g: &'g Graph, hvd: &Hvd, flags: &Flags) -> Result<Network<'g>, Box<dyn Error>> {
    let images = g.placeholder("images", DType::F32, [-1, (SIDE * SIDE) as i64]);
    let labels = g.placeholder("labels", DType::I64, [-1]);
    let keep_prob = g.placeholder("keep_prob", DType::F32, []);
    let ranks = if flags.whole { 1 } else { hvd.size() };
    let x = convolutions(images);
    let (logits, parts) = dense_layers(x, keep_prob, SplitLayers::over(ranks))?;
    let mean = losses::sparse_softmax_cross_entropy(labels, logits).value();
    // The sum of this over all ranks is the mean of all their images.
    let loss = mean * (1.0 / hvd.size() as f64);
    let found = logits.arg_max(1).equal(labels).cast(DType::F32).mean();

    let all = g.trainable_variables();
    let is_part =
        |v: &Variable<'g>| !flags.whole && parts.iter().any(|p| p.handle().id() == v.handle().id());
    let whole: Vec<Variable<'g>> = all.iter().copied().filter(|v| !is_part(v)).collect();
    let optimizer = Adam::new(1e-4);
    let gradients = optimizer.compute_gradients(loss, &all);
    let (own, shared): (Vec<_>, Vec<_>) = gradients.into_iter().partition(|(_, v)| is_part(v));
    // The gradient of a split variable covers the rows of all ranks already. Gradients of the other variables are
    // summed.
    let mut gradients = hvd
        .distributed(Adam::new(1e-4))
        .op(ReduceOp::Sum)
        .reduced(g, &shared);
    gradients.extend(own);
    Ok(Network {
        images,
        labels,
        keep_prob,
        train: optimizer.apply_gradients(g, &gradients, None),
        accuracy: found,
        whole,
    })
}

/// Computed traffic that a rank sends in a step, in MB: all-reduce of the whole variables, and all-to-all both ways.
fn megabytes_sent(hvd: &Hvd, flags: &Flags, whole: &[Variable<'_>]) -> f64 {
    let n = hvd.size() as f64;
    let elements = |v: &Variable<'_>| {
        let dims = v.value().shape().to_dims().unwrap_or_default();
        dims.iter().product::<usize>() as f64
    };
    let reduced: f64 = whole.iter().map(elements).sum();
    let rows = flags.batch as f64 / n;
    let megabytes_sent = match flags.whole {
        true => 0.0,
        // Features forward, and their gradients back; logits, and theirs.
        false => 2.0 * (n - 1.0) * rows * (FEATURES + CLASSES) as f64,
    };
    4.0 * (2.0 * (n - 1.0) / n * reduced + megabytes_sent) / 1e6
}

fn main() -> Result<(), Box<dyn Error>> {
    let flags = Flags::parse();
    let hvd = Hvd::init()?;
    if !flags.batch.is_multiple_of(hvd.size()) || flags.batch == 0 {
        let (batch, ranks) = (flags.batch, hvd.size());
        return Err(format!("--batch {batch} cannot be shared by {ranks} ranks").into());
    }
    let rows = flags.batch / hvd.size();

    let g = Graph::new();
    // Each rank draws its own part.
    g.set_seed(1 + hvd.rank() as i64);
    let net = network(&g, &hvd, &flags)?;
    let broadcast = hvd.broadcast_variables(&g, &net.whole, 0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = SessionOptions::new().threads((cores / hvd.local_size()).max(1));
    let session = Session::with_options(&g, hvd.session(options))?;
    session.run(g.initializers(), [])?;
    session.run(broadcast, [])?;

    let mnist = Mnist::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"))?;
    let rounds = mnist.test.len().min(flags.test_images) / flags.batch;
    if rounds == 0 {
        return Err("there are fewer test images than --batch: give a smaller --batch, or more --test-images".into());
    }
    let mut batches = mnist.train.batches(rows, hvd.rank() as u64)?;
    let mut began = Instant::now();
    for step in 0..flags.steps {
        if step == WARM_UP {
            began = Instant::now();
        }
        let [x, y] = batches.tensors()?;
        let feeds = [
            net.images.feed(x),
            net.labels.feed(y),
            net.keep_prob.feed(0.5f32),
        ];
        session.run::<()>(net.train, feeds)?;
    }
    let seconds = began.elapsed().as_secs_f64();

    // All ranks evaluate the same number of batches, because the layers exchange values here too.
    let mut tests = mnist.test.batches(rows, 0)?;
    let mut sum = 0.0;
    for number in 0..rounds * hvd.size() {
        let [x, y] = tests.tensors()?;
        if number % hvd.size() != hvd.rank() {
            continue;
        }
        let feeds = [
            net.images.feed(x),
            net.labels.feed(y),
            net.keep_prob.feed(1.0f32),
        ];
        sum += session.run::<f32>(net.accuracy, feeds)?;
    }
    let mean = hvd.allreduce(Tensor::scalar(sum / rounds as f32), ReduceOp::Average)?;
    if hvd.rank() == 0 {
        output::line(format_args!(
            "{:.2}% of the test images are recognized, {:.1} MB sent by each rank in a step",
            100.0 * mean.to_scalar::<f32>()?,
            megabytes_sent(&hvd, &flags, &net.whole),
        ));
        if flags.steps > WARM_UP {
            let images = (flags.steps - WARM_UP) * flags.batch;
            output::line(format_args!("{:.0} images/s", images as f64 / seconds));
        }
    }
    Ok(())
}
