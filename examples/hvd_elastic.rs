//! Elastic Horovod: deep MNIST on a changing set of ranks. The training continues when ranks are lost, and admits new
//! ones.
//!
//! ```text
//! cargo build --release -p thalweg-examples -p thalweg-cli --bins
//! target/release/thalweg launch hvd -np 2 --min-np 1 -- hvd_elastic --log target/elastic.csv
//! ```
//!
//! Options: `--steps N` (1000), `--log FILE`, to which rank 0 appends step, loss, ranks and seconds, and `--plot FILE.svg`,
//! which is drawn from the log at the end.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use thalweg::data::Mnist;
use thalweg::hvd::ReduceOp;
use thalweg::hvd::elastic::{self, Elastic};
use thalweg::prelude::*;
use thalweg::train::hooks::StopAtStepHook;
use thalweg_examples::model::{deep_mnist_trained_by, feeds};
use thalweg_examples::output;
use thalweg_examples::plot::{self, Curve, Panel, panels};

const BATCH: usize = 50;
/// Number of test images.
const TEST_IMAGES: usize = 2000;

struct Options {
    steps: i64,
    log: Option<PathBuf>,
    plot: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = parse(std::env::args().skip(1))?;
    let mnist = Mnist::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"))?;
    // Elastic: the function is called again whenever ranks have come or gone.
    let rank = elastic::run(|job| train(job, &options, &mnist))?;
    if let (0, Some(log), Some(plot)) = (rank, &options.log, &options.plot) {
        draw(log, plot)?;
    }
    Ok(())
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        steps: 1000,
        log: None,
        plot: None,
    };
    while let Some(flag) = args.next() {
        match (&*flag, args.next()) {
            ("--steps", Some(n)) => options.steps = n.parse()?,
            ("--log", Some(path)) => options.log = Some(path.into()),
            ("--plot", Some(path)) => options.plot = Some(path.into()),
            _ => {
                return Err("usage: hvd_elastic [--steps N] [--log FILE [--plot FILE.svg]]".into());
            }
        }
    }
    if let Some(path) = &options.plot {
        plot::check_name(path)?;
    }
    Ok(options)
}

/// Trains in one round. Returns the rank.
fn train(job: &mut Elastic, options: &Options, mnist: &Mnist) -> Result<usize, Box<dyn Error>> {
    let hvd = job.hvd().clone();
    let g = Graph::new();
    let step = create_global_step(&g);
    let net = deep_mnist_trained_by(&g, DataFormat::Nhwc, |loss| {
        // The rate follows the number of ranks, as the batch does.
        let optimizer = Adam::new(2e-4 * hvd.size() as f32);
        hvd.distributed(optimizer).minimize_counting(loss, step)
    });
    let threads = SessionOptions::new().threads(1);
    let ranks = hvd.session(threads);
    let mut session = MonitoredTrainingSession::new(&g)
        .quiet()
        // Elastic: it begins with the last commit, and commits every 20 steps.
        .hook(job.hook(20))
        .hook(StopAtStepHook::last_step(options.steps))
        .start(|| Session::with_options(&g, ranks.clone()))?;

    let mut log = match (&options.log, hvd.rank()) {
        (Some(path), 0) => Some(OpenOptions::new().create(true).append(true).open(path)?),
        _ => None,
    };
    // Each rank has an order of its own in each round.
    let seed = job.round() << 16 | hvd.rank() as u64;
    let mut batches = mnist.train.batches(BATCH, seed)?;
    let mut batch = feeds(BATCH, 0.5)?;
    while !session.should_stop() {
        let [images, labels, _] = &mut batch;
        batches.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        let done = session
            .run::<((), (i64, f32))>((net.train, (step.value(), net.loss)), net.feed(&batch))?;
        if let (Some(log), Some(((), (step, loss)))) = (&mut log, done) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
            writeln!(log, "{step},{loss},{},{now:.3}", hvd.size())?;
            if step % 100 == 0 {
                output::line(format_args!(
                    "step {step} loss {loss:.3} on {} ranks",
                    hvd.size()
                ));
            }
        }
    }
    let part = |values: &[Tensor; 3]| -> Result<f32, Box<dyn Error>> {
        Ok(session.session().run(net.accuracy, net.feed(values))?)
    };
    let mut own = [0.0, 0.0];
    let mut tested = mnist.test.batches(BATCH, 0)?;
    let mut values = feeds(BATCH, 1.0)?;
    for number in 0..TEST_IMAGES / BATCH {
        let [images, labels, _] = &mut values;
        tested.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        if number % hvd.size() == hvd.rank() {
            own = [own[0] + part(&values)?, own[1] + 1.0];
        }
    }
    let sums = hvd.allreduce(Tensor::vector(&own), ReduceOp::Sum)?;
    let sums = sums.as_slice::<f32>()?;
    if hvd.rank() == 0 {
        let accuracy = 100.0 * sums[0] / sums[1];
        output::line(format_args!(
            "{accuracy:.2}% of {TEST_IMAGES} test images are recognized"
        ));
    }
    session.close()?;
    Ok(hvd.rank())
}

/// Draws the losses and the ranks over the seconds.
fn draw(log: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut File::open(log)?, &mut text)?;
    let numbers = |line: &str| -> Option<[f64; 4]> {
        let all: Vec<f64> = line.split(',').map_while(|n| n.parse().ok()).collect();
        all.try_into().ok()
    };
    let all: Vec<[f64; 4]> = text.lines().filter_map(numbers).collect();
    let began = all.first().map_or(0.0, |l| l[3]);
    // Means of some steps, because single batches are noisy; capped, because the first losses would flatten the rest.
    let mean = |c: &[[f64; 4]]| c.iter().map(|l| l[1]).sum::<f64>() / c.len() as f64;
    let losses: Vec<(f64, f64)> = all
        .chunks(10)
        .map(|c| (c[0][3] - began, mean(c).min(1.0)))
        .collect();
    let ranks: Vec<(f64, f64)> = all.iter().map(|l| (l[3] - began, l[2])).collect();
    let steps: Vec<(f64, f64)> = all.iter().map(|l| (l[3] - began, l[0])).collect();
    let panel = |name: &'static str, points| Panel {
        name,
        curves: vec![Curve {
            label: name,
            points,
        }],
    };
    let all = [
        panel("loss, at most 1", &losses),
        panel("ranks", &ranks),
        panel("global step", &steps),
    ];
    panels(to, "seconds", &all)
}
