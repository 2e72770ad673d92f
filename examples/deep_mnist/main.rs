//! TensorFlow's deep MNIST tutorial: a convolutional network that learns to read digits.

mod flags;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use flags::Flags;
use thalweg::data::Mnist;
use thalweg::prelude::*;
use thalweg::tensor::text::counted;
use thalweg::train::StopSignal;
use thalweg::train::hooks::{Every, NanTensorHook, StopAtStepHook};
use thalweg::train::{MonitoredSession, SavedValue, TrainError};
use thalweg_examples::accuracy::{Test, describe_images};
use thalweg_examples::model::{
    DeepMnist, deep_mnist_trained_by, falling_rate, feeds, synthetic_feeds,
};
use thalweg_examples::output;
use thalweg_examples::plot::{Curve, check_name, curves};
use thalweg_examples::progress::Progress;
use thalweg_examples::report::{Spread, print};
use thalweg_examples::traces::warmed_up;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Test images of the accuracy in each line of progress.
const PROGRESS_TEST_IMAGES: usize = 1000;

fn main() -> ExitCode {
    let start = Instant::now();
    let flags = Flags::parse();
    match run(&flags, start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(format_args!("error: {error}"));
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
    let net = g.device(&flags.device, || {
        deep_mnist_trained_by(&g, flags.data_format, |loss| minimize(flags, loss))
    });
    let options = SessionOptions::new()
        .threads(flags.threads)
        .for_device(&flags.device);
    let session = || Session::with_options(&g, options.clone());
    if flags.benchmark {
        let session = session()?;
        session.run(g.initializers(), [])?;
        return benchmark(flags, &session, &net, start);
    }
    let saver = Saver::new(&g);
    let position = saver.keep("input/position", 0u64);
    let mut monitored = MonitoredTrainingSession::new(&g)
        .scaffold(Scaffold::new().saver(saver))
        .hook(StopAtStepHook::last_step(flags.train_steps.try_into()?))
        .hook(NanTensorHook::new(net.loss.id()))
        .log_step_count(None);
    if let Some(folder) = &flags.checkpoint_dir {
        let every = Every::Steps(flags.save_steps);
        monitored = monitored.checkpoint_dir(folder).save_checkpoint(every);
    }
    train(flags, monitored.start(session)?, &net, &position)
}

/// Minimizes the loss by Adam.
fn minimize<'g>(flags: &Flags, loss: Output<'g>) -> Operation<'g> {
    let falling = (flags.train_steps as f64 * flags.decay).round() as u32;
    if flags.benchmark {
        return Adam::new(flags.learning_rate).minimize(loss);
    }
    let step = create_global_step(loss.graph());
    if falling == 0 {
        return Adam::new(flags.learning_rate).minimize_counting(loss, step);
    }
    let rate = falling_rate(step, flags.learning_rate, flags.train_steps, falling);
    Adam::new(rate).minimize_counting(loss, step)
}

/// A session that restores, saves and stops.
type Monitored<'g, M> = MonitoredSession<Session<'g>, M>;

fn train<'g, M>(
    flags: &Flags,
    mut session: Monitored<'g, M>,
    net: &DeepMnist<'g>,
    position: &SavedValue,
) -> Result<()>
where
    M: FnMut() -> std::result::Result<Session<'g>, SessionError>,
{
    let stop = StopSignal::catch()?;
    let bundled = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"));
    let mnist = Mnist::load(flags.data_dir.clone().unwrap_or_else(bundled))?;
    let mut batches = mnist.train.batches(flags.batch_size, flags.seed.into())?;
    batches.seek(position.get().to_scalar()?);
    let mut batch = feeds(flags.batch_size, 0.5)?;
    let mut test = Test::new(session.session(), net)?;
    let begun = u64::try_from(session.global_step()?.unwrap_or(0))?;

    let mut progress = Progress::new(flags.train_steps, flags.batch_size, !flags.json);
    if !flags.json {
        let (images, tests) = (mnist.train.len(), mnist.test.len());
        let format = flags.data_format.name();
        progress.line(&format!(
            "{images} images to train on, {tests} to test; {format}"
        ));
    }
    let [glance, whole] =
        [PROGRESS_TEST_IMAGES, usize::MAX].map(|n| describe_images(n, mnist.test.len()));
    let (mut losses, mut accuracies) = (Vec::new(), Vec::new());
    let mut spent = Duration::ZERO;
    let (mut done, mut sum, mut summed) = (begun, 0.0, 0.0);
    progress.begin_at(begun);
    while !session.should_stop() && !stop.is_set() {
        let begin = Instant::now();
        let [images, labels, _] = &mut batch;
        batches.next_one_hot_into(images.as_mut_slice()?, labels.as_mut_slice()?)?;
        position.set(batches.position());
        let fetched = session.run::<((), f32)>((net.train, net.loss), net.feed(&batch));
        let Some((_, loss)) = fetched.map_err(with_advice)? else {
            break;
        };
        spent += begin.elapsed();
        done += 1;
        progress.step(loss);
        sum += f64::from(loss);
        summed += 1.0;
        if done % flags.display_every == 0 || done == flags.train_steps {
            let accuracy = test.accuracy(&mnist.test, PROGRESS_TEST_IMAGES)?;
            losses.push((done as f64, sum / summed));
            accuracies.push((done as f64, accuracy));
            if !flags.json {
                let loss = sum / summed;
                progress.line(&format!(
                    "step {done:5}: loss {loss:.4}, {:.1}% of {glance}",
                    100.0 * accuracy
                ));
            }
            (sum, summed) = (0.0, 0.0);
        }
    }
    progress.finish();

    let accuracy = test.accuracy(&mnist.test, usize::MAX)?;
    let speed = (done - begun) as f64 * flags.batch_size as f64 / spent.as_secs_f64().max(1e-9);
    let workload = format!("deep_mnist_train_{}", flags.data_format.name());
    // Names the number of images, because the lines of progress use fewer.
    let part = match flags.json {
        true => "fraction".to_owned(),
        false => format!("of {whole}"),
    };
    print(
        flags.json,
        flags.batch_size,
        &[
            (&workload, speed, "images/s"),
            ("deep_mnist_test_accuracy", accuracy, &part),
        ],
    );
    if !flags.json {
        let planned = counted(flags.train_steps, "step");
        output::line(format_args!(
            "{done} of {planned} in {:.1} s",
            spent.as_secs_f64()
        ));
    }
    if let Some(path) = &flags.plot {
        let curve = |label, points| Curve { label, points };
        let last = [(done as f64, accuracy)];
        curves(
            path,
            &[curve("training", &losses)],
            &[curve(&glance, &accuracies), curve(&whole, &last)],
        )?;
    }
    // The steps of the trace are in no checkpoint.
    let untold = session.session().clone();
    session.close()?;
    trace(flags, &untold, net, &batch)
}

/// Runs a few more steps, and writes the trace of the last one.
fn trace<'g>(
    flags: &Flags,
    session: &Session<'g>,
    net: &DeepMnist<'g>,
    batch: &[Tensor; 3],
) -> Result<()> {
    let Some(path) = &flags.trace else {
        return Ok(());
    };
    let (step, options) = ((net.train, net.loss), RunOptions::new().traced());
    let traced = || session.step_with(step, net.feed(batch), &options);
    warmed_up(|| traced().map(|(_, trace)| trace))?
        .save(path)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(())
}

/// Adds advice to the error of a loss that is not finite.
fn with_advice(error: TrainError) -> Box<dyn Error> {
    match error {
        TrainError::Diverged { .. } => format!("{error}: try a lower --learning-rate").into(),
        error => error.into(),
    }
}

fn benchmark<'g>(
    flags: &Flags,
    session: &Session<'g>,
    net: &DeepMnist<'g>,
    start: Instant,
) -> Result<()> {
    let batch = synthetic_feeds(flags.batch_size)?;
    let mut step = session.callable((net.train, net.loss), net.inputs())?;
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
    print(
        flags.json,
        flags.batch_size,
        &[first, (&workload, speed, "images/s")],
    );
    if !flags.json {
        let Spread {
            median,
            mean,
            error,
            jitter,
        } = spread;
        output::line(format_args!(
            "single steps: {mean:.1} +- {error:.1}, median {median:.1}, jitter {jitter:.1}"
        ));
    }
    trace(flags, session, net, &batch)
}
