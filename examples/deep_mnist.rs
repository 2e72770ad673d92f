//! TensorFlow's deep MNIST tutorial: a convolutional network that learns to read digits.

mod support;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use support::model::{DeepMnist, deep_mnist, feeds, synthetic_feeds};
use support::plot::{Curve, check_name, curves};
use support::progress::Progress;
use support::report::{Outcome, Spread, table};
use support::stop::Stop;
use thalweg::prelude::*;
use thalweg::train::data::{Mnist, Split};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Trains a convolutional network on MNIST, and tests it.
#[derive(Parser)]
struct Flags {
    /// The folder with MNIST's four files; without it, a part of MNIST that comes with the code.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The order of the images' dimensions: NHWC or NCHW.
    #[arg(long, default_value = "NHWC", value_parser = data_format)]
    data_format: DataFormat,
    /// Images in each step.
    #[arg(long, default_value_t = 50)]
    batch_size: usize,
    /// Steps of training.
    #[arg(long, default_value_t = 5000)]
    train_steps: u64,
    /// Adam's learning rate.
    #[arg(long, default_value_t = 1e-4)]
    learning_rate: f32,
    /// Steps between two lines of progress.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    display_every: u64,
    /// Seed of the initial weights, the dropout and the order of the images.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Threads; 0 for as many as the machine runs at once.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Writes what ran when in one step to this file, for Perfetto or chrome://tracing.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draws loss and accuracy over the steps into this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Prints results as lines of JSON, and nothing else.
    #[arg(long)]
    json: bool,
    /// Measures the speed of training on images that mean nothing.
    #[arg(long)]
    benchmark: bool,
    /// Steps of the benchmark that come before the measured ones.
    #[arg(long, default_value_t = 10)]
    warmup: usize,
    /// Measured steps of the benchmark.
    #[arg(long, default_value_t = 60)]
    steps: usize,
}

fn data_format(name: &str) -> std::result::Result<DataFormat, String> {
    [DataFormat::Nhwc, DataFormat::Nchw]
        .into_iter()
        .find(|f| f.name().eq_ignore_ascii_case(name))
        .ok_or("give NHWC or NCHW".to_owned())
}

/// Images of a test that are looked at in one step: few, as all their features lie in memory.
const TEST_BATCH: usize = 200;
/// Images of the test set that each line of progress looks at.
const TEST_GLANCE: usize = 1000;

fn main() -> ExitCode {
    let start = Instant::now();
    let flags = Flags::parse();
    match run(&flags, start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags, start: Instant) -> Result<()> {
    if let Some(path) = &flags.plot {
        check_name(path)?;
    }
    let g = Graph::new();
    g.set_seed(flags.seed.into());
    let net = deep_mnist(&g, flags.data_format, flags.learning_rate);
    let session = Session::with_options(&g, SessionOptions::with_threads(flags.threads))?;
    session.run(g.initializers(), [])?;
    if flags.benchmark {
        benchmark(flags, &session, &net, start)
    } else {
        train(flags, &session, &net)
    }
}

fn train<'g>(flags: &Flags, session: &Session<'g>, net: &DeepMnist<'g>) -> Result<()> {
    let stop = Stop::on_ctrl_c()?;
    let bundled = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/mnist");
    let mnist = Mnist::load(flags.data_dir.clone().unwrap_or_else(bundled))?;
    let mut batches = mnist.train.batches(flags.batch_size, flags.seed.into())?;
    let mut batch = feeds(flags.batch_size, 0.5)?;
    let mut step = session.callable((net.train, net.loss), &net.inputs())?;
    let mut test = Test::new(session, net)?;

    let mut progress = Progress::new(flags.train_steps, flags.batch_size, !flags.json);
    if !flags.json {
        let (images, tests) = (mnist.train.len(), mnist.test.len());
        let format = flags.data_format.name();
        progress.line(&format!(
            "{images} images to train on, {tests} to test; {format}"
        ));
    }
    let (mut losses, mut accuracies) = (Vec::new(), Vec::new());
    let mut spent = Duration::ZERO;
    let (mut done, mut sum, mut summed) = (0, 0.0, 0.0);
    while done < flags.train_steps && !stop.requested() {
        let begin = Instant::now();
        let [images, labels, _] = &mut batch;
        batches.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        let loss = step.call(&batch)?.scalar::<f32>(1)?;
        spent += begin.elapsed();
        done += 1;
        progress.step(loss);
        if !loss.is_finite() {
            progress.finish();
            return Err(diverged(session, net, &batch, done));
        }
        sum += f64::from(loss);
        summed += 1.0;
        if done % flags.display_every == 0 || done == flags.train_steps {
            let accuracy = test.accuracy(&mnist.test, TEST_GLANCE)?;
            losses.push((done as f64, sum / summed));
            accuracies.push((done as f64, accuracy));
            if !flags.json {
                let loss = sum / summed;
                progress.line(&format!(
                    "step {done:5}: loss {loss:.4}, {:.1}% of {TEST_GLANCE} test images",
                    100.0 * accuracy
                ));
            }
            (sum, summed) = (0.0, 0.0);
        }
    }
    progress.finish();

    let accuracy = test.accuracy(&mnist.test, usize::MAX)?;
    let speed = done as f64 * flags.batch_size as f64 / spent.as_secs_f64().max(1e-9);
    let workload = format!("deep_mnist_train_{}", flags.data_format.name());
    report(
        flags,
        &[
            (&workload, speed, "images/s"),
            ("deep_mnist_test_accuracy", accuracy, "fraction"),
        ],
    );
    if !flags.json {
        let planned = flags.train_steps;
        println!("{done} of {planned} steps in {:.1} s", spent.as_secs_f64());
    }
    if let Some(path) = &flags.plot {
        let curve = |label, points| [Curve { label, points }];
        curves(
            path,
            &curve("training", &losses),
            &curve("test", &accuracies),
        )?;
    }
    trace(flags, session, net, &batch)
}

/// Runs one more step, and writes what ran when in it.
fn trace<'g>(
    flags: &Flags,
    session: &Session<'g>,
    net: &DeepMnist<'g>,
    batch: &[Tensor; 3],
) -> Result<()> {
    let Some(path) = &flags.trace else {
        return Ok(());
    };
    let step = (net.train, net.loss);
    let (_, trace) = session.run_with(step, net.feed(batch), &RunOptions::traced())?;
    trace
        .save(path)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(())
}

/// What a step whose loss is not finite ended on: the first value of the next one that is not.
fn diverged<'g>(
    session: &Session<'g>,
    net: &DeepMnist<'g>,
    batch: &[Tensor; 3],
    step: u64,
) -> Box<dyn Error> {
    let why = match session.run_with(net.loss, net.feed(batch), &RunOptions::checked()) {
        Err(error) => error.to_string(),
        Ok(_) => "it is finite for the same images now".to_owned(),
    };
    format!("the loss of step {step} is not finite, try a lower --learning-rate: {why}").into()
}

/// Tells how many images of a split the network reads.
struct Test<'s, 'g> {
    step: Callable<'s, 'g>,
    feeds: [Tensor; 3],
}

impl<'s, 'g> Test<'s, 'g> {
    fn new(session: &'s Session<'g>, net: &DeepMnist<'g>) -> Result<Test<'s, 'g>> {
        Ok(Test {
            step: session.callable(net.accuracy, &net.inputs())?,
            feeds: feeds(TEST_BATCH, 1.0)?,
        })
    }

    /// The part of the first `most` images of `split` whose class is found.
    fn accuracy(&mut self, split: &Split, most: usize) -> Result<f64> {
        let (mut found, mut seen) = (0.0, 0);
        for chunk in split.chunks(TEST_BATCH)? {
            if self.feeds[0].dims()[0] != chunk.len() {
                self.feeds = feeds(chunk.len(), 1.0)?;
            }
            let [images, labels, _] = &mut self.feeds;
            chunk.images_into(images.as_mut_slice()?)?;
            chunk.one_hot_into(labels.as_mut_slice()?)?;
            let part = self.step.call(&self.feeds)?.scalar::<f32>(0)?;
            found += f64::from(part) * chunk.len() as f64;
            seen += chunk.len();
            if seen >= most {
                break;
            }
        }
        Ok(found / seen.max(1) as f64)
    }
}

fn benchmark<'g>(
    flags: &Flags,
    session: &Session<'g>,
    net: &DeepMnist<'g>,
    start: Instant,
) -> Result<()> {
    let batch = synthetic_feeds(flags.batch_size)?;
    let mut step = session.callable((net.train, net.loss), &net.inputs())?;
    step.call(&batch)?;
    let first = start.elapsed().as_secs_f64();
    for _ in 1..flags.warmup {
        step.call(&batch)?;
    }
    let mut speeds = Vec::with_capacity(flags.steps);
    let begin = Instant::now();
    for _ in 0..flags.steps {
        let begin = Instant::now();
        step.call(&batch)?;
        speeds.push(flags.batch_size as f64 / begin.elapsed().as_secs_f64());
    }
    let images = (flags.steps * flags.batch_size) as f64;
    let speed = images / begin.elapsed().as_secs_f64();
    let spread = Spread::of(&speeds).ok_or("--steps 0 measures nothing")?;
    let workload = format!("deep_mnist_train_{}", flags.data_format.name());
    let first = ("deep_mnist_first_step", first, "s");
    report(flags, &[first, (&workload, speed, "images/s")]);
    if !flags.json {
        let Spread {
            median,
            mean,
            error,
            jitter,
        } = spread;
        println!("single steps: {mean:.1} +- {error:.1}, median {median:.1}, jitter {jitter:.1}");
    }
    trace(flags, session, net, &batch)
}

/// Prints results: what was done, the value, its unit.
fn report(flags: &Flags, results: &[(&str, f64, &str)]) {
    if flags.json {
        for &(workload, value, unit) in results {
            let batch = flags.batch_size;
            let outcome = Outcome {
                workload,
                batch,
                value,
                unit,
            };
            println!("{}", outcome.json());
        }
    } else {
        let rows = results.iter().map(|&(workload, value, unit)| {
            [workload.to_owned(), format!("{value:.4}"), unit.to_owned()]
        });
        println!("{}", table(["workload", "value", "unit"], rows));
    }
}
