//! Training with large batches: momentum diverges with 32 times the batch, and LARS still learns.
//!
//! ```text
//! cargo run --release --example large_batch -- --plot large_batch.svg
//! ```

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use thalweg::data::Mnist;
use thalweg::layers::{batch_norm, conv2d, dense, losses, max_pool, update_ops};
use thalweg::prelude::*;
use thalweg::train::StopSignal;
use thalweg::train::{Lars, Rate};
use thalweg_examples::output;
use thalweg_examples::plot::{Curve, Panel, panels};
use thalweg_examples::progress::Progress;
use thalweg_examples::report::table;

/// The smallest batch.
const BATCH: usize = 32;

/// Trains one network with batches of 32 to 1024 images, by momentum and by LARS. The rate grows with the batch, and rises
/// from 0 in the first part of the training.
#[derive(Parser)]
struct Flags {
    /// Passes over the images of each training.
    #[arg(long, default_value_t = 8)]
    epochs: u64,
    /// The largest batch, as a multiple of 32.
    #[arg(long, default_value_t = 32)]
    most: usize,
    /// The rate of momentum for a batch of 32.
    #[arg(long, default_value_t = 0.05)]
    rate: f32,
    /// The rate of LARS for a batch of 32.
    #[arg(long, default_value_t = 2.0)]
    lars_rate: f32,
    /// The folder with MNIST's four files; without it, a part of MNIST that comes with the code.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Draws the accuracies.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Prints results as lines of JSON.
    #[arg(long)]
    json: bool,
}

/// Logits of images `[n, 784]`.
fn network<'g>(images: Output<'g>, training: Output<'g>) -> Output<'g> {
    let block = |x, channels| {
        let x = conv2d(channels, 3)
            .padding(Padding::Same)
            .without_bias()
            .on(x);
        max_pool(2, 2).on(batch_norm().training(training).on(x).relu())
    };
    let h = block(images.reshape([-1, 28, 28, 1]), 8);
    dense(10).on(block(h, 16).reshape([-1, 7 * 7 * 16]))
}

/// Trains with this batch; returns the last loss and the test accuracy.
fn trained(
    flags: &Flags,
    mnist: &Mnist,
    lars: bool,
    batch: usize,
) -> Result<(f32, f32), Box<dyn Error>> {
    let g = Graph::new();
    g.set_seed(1);
    let images = g.placeholder("images", DType::F32, [None, Some(784)]);
    let labels = g.placeholder("labels", DType::I64, [None]);
    let training = g.placeholder("training", DType::Bool, []);
    let logits = network(images, training);
    let loss = losses::sparse_softmax_cross_entropy(labels, logits).value();
    let found = logits.arg_max(1).equal(labels).cast(DType::F32).mean();

    let steps = flags.epochs as usize * mnist.train.len() / batch;
    let step = create_global_step(&g);
    let larger = (batch / BATCH) as f32;
    let rate = |base: f32| -> Rate<'_> {
        let falls = polynomial_decay(base * larger, step.value(), steps as u32, 0.0, 1.0, false);
        linear_warmup(falls, step, (steps / 4).max(1) as u32, 0.0).into()
    };
    let minimize = match lars {
        false => Momentum::new(rate(flags.rate), 0.9).minimize_counting(loss, step),
        true => Lars::new(rate(flags.lars_rate)).minimize_counting(loss, step),
    };
    let train = g.group("train", update_ops(&g).into_iter().chain([minimize]));
    let session = Session::new(&g)?;
    session.run(g.initializers(), [])?;
    let mut batches = mnist.train.batches(batch, 1)?;
    let mut last = f32::NAN;
    for _ in 0..steps {
        let [x, y] = batches.tensors()?;
        let feeds = [images.feed(x), labels.feed(y), training.feed(true)];
        (_, last) = session.run::<((), f32)>((train, loss), feeds)?;
    }
    let mut right = 0.0;
    for part in mnist.test.chunks(500)? {
        let [x, y] = part.tensors()?;
        let feeds = [images.feed(x), labels.feed(y), training.feed(false)];
        right += session.run::<f32>(found, feeds)? * part.len() as f32;
    }
    Ok((last, right / mnist.test.len() as f32))
}

fn main() -> Result<(), Box<dyn Error>> {
    let flags = Flags::parse();
    let stop = StopSignal::catch()?;
    let bundled = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"));
    let mnist = Mnist::load(flags.data_dir.clone().unwrap_or_else(bundled))?;
    let batches: Vec<usize> = (0..)
        .map(|n| BATCH << n)
        .take_while(|b| *b <= BATCH * flags.most)
        .collect();
    let seen = flags.epochs as usize * mnist.train.len();
    let mut progress = Progress::new(2 * batches.len() as u64, seen, !flags.json);
    let mut curves = [Vec::new(), Vec::new()];
    for &batch in &batches {
        for (lars, curve) in [false, true].into_iter().zip(&mut curves) {
            if stop.is_set() {
                break;
            }
            let (loss, share) = trained(&flags, &mnist, lars, batch)?;
            curve.push(((batch as f64).log2(), f64::from(share)));
            progress.step(loss);
        }
    }
    progress.finish();
    let [momentum, lars] = &curves;
    let rows = momentum.iter().zip(lars).zip(&batches);
    if flags.json {
        for ((m, l), batch) in rows {
            output::line(format_args!(
                r#"{{"batch":{batch},"momentum":{},"lars":{}}}"#,
                m.1, l.1
            ));
        }
    } else {
        let rows = rows.map(|((m, l), batch)| {
            let percent = |x: f64| format!("{:.2}", 100.0 * x);
            [batch.to_string(), percent(m.1), percent(l.1)]
        });
        output::line(table(["batch", "momentum, %", "LARS, %"], rows));
    }
    if let Some(path) = &flags.plot {
        let curve = |label, points| Curve { label, points };
        let panel = Panel {
            name: "accuracy on test images",
            curves: vec![curve("momentum", momentum), curve("LARS", lars)],
        };
        panels(path, "log2 of the batch", &[panel])?;
    }
    Ok(())
}
