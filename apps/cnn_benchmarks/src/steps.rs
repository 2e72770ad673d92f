//! The main loop: warm-up steps, measured steps, evaluation, and the final results.

use std::path::Path;
use std::time::{Duration, Instant};

use thalweg::graphdef::{ExportOptions, export, file};
use thalweg::parallel::{Process, TrainingRun};
use thalweg::prelude::*;
use thalweg::session::{Feed, Trace};
use thalweg::train::MonitoredTrainingSession;
use thalweg::train::StopSignal;
use thalweg::train::hooks::Every;
use thalweg_examples::output;
use thalweg_examples::plot::check_name;
use thalweg_examples::progress::Progress;

use crate::Result;
use crate::checkpoints::Checkpoints;
use crate::explain::StepEstimate;
use crate::header;
use crate::images::Images;
use crate::network::{Network, build};
use crate::plot;
use crate::printer::{InputReport, Printer, StepValues};
use crate::settings::{Mode, Settings};
use crate::step_time::StepTime;
use crate::throughput::Throughput;

/// Timeout of workers that wait for each other.
const WORKER_TIMEOUT: Duration = Duration::from_secs(600);

/// Builds the model and runs it; on a parameter server, serves until the workers are done.
///
/// # Errors
/// An error of the model, a step or a file.
pub fn run(settings: &Settings, process: &Process) -> Result<()> {
    let stop = StopSignal::catch()?;
    if let Some(path) = &settings.flags.extensions.plot {
        check_name(path)?;
    }
    let shown = process.ranks().is_none() || process.number() == 0;
    let printer = Printer::new(settings, shown);
    let g = Graph::new();
    if process.steps() {
        header::lines(settings)
            .iter()
            .for_each(|line| printer.say(line));
        printer.say(match settings.mode {
            Mode::Evaluate => "Generating evaluation model",
            _ => "Generating training model",
        });
    }
    let network = build(settings, process, &g)?;
    if settings.flags.extensions.explain {
        if !process.steps() {
            return Ok(());
        }
        if !shown {
            return Ok(());
        }
        let estimate = StepEstimate::new(settings, &g, &network)?;
        match printer.json {
            true => output::line(estimate.to_json()),
            false => output::line(estimate.to_text()),
        }
        return Ok(());
    }
    if process.steps() {
        let graph_file = settings.flags.output.graph_file.as_ref();
        if let Some(path) = graph_file.filter(|_| shown) {
            write_graph(&g, path)?;
        }
        printer.say("Initializing graph");
    }
    let started = process.start(&g, &network.training, |session| {
        monitored(settings, session)
    })?;
    let Some(run) = started else {
        return Ok(());
    };
    let task = process.number();
    let images = Images::new(settings, task)?;
    let mut worker = StepWorker {
        settings,
        network: &network,
        run,
        images,
        stop,
        printer,
        task,
        step_times: Vec::new(),
        inputs: Duration::ZERO,
        waited: Duration::ZERO,
    };
    if settings.mode == Mode::Evaluate {
        let mut checkpoints = Checkpoints::new(settings);
        while let Some(checkpoint) = checkpoints.next(&worker.stop)? {
            worker
                .printer
                .say(format_args!("Evaluating {}", checkpoint.display()));
            network
                .training
                .restore(worker.run.session()?, checkpoint)?;
            worker.measure()?;
        }
        return Ok(());
    }
    worker.resume_input()?;
    worker.warm_up()?;
    let speeds = worker.measure()?;
    // Of several workers the first one draws.
    if let Some(path) = settings
        .flags
        .extensions
        .plot
        .as_ref()
        .filter(|_| task == 0)
    {
        plot::draw(path, settings.worker_batch(), &speeds, &worker.step_times)?;
    }
    // The last checkpoint.
    Ok(worker.run.close()?)
}

/// Writes the graph.
fn write_graph(g: &Graph, path: &Path) -> Result<()> {
    let bytes = file::encode(&export(g, &ExportOptions::new())?);
    std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()).into())
}

/// A monitored session with the flags' checkpoints and summaries.
fn monitored<'a>(
    settings: &Settings,
    session: MonitoredTrainingSession<'a>,
) -> MonitoredTrainingSession<'a> {
    let output = &settings.flags.output;
    let session = session.log_step_count(None);
    let Some(folder) = output
        .train_dir
        .as_ref()
        .filter(|_| settings.mode == Mode::Train)
    else {
        return session;
    };
    let every = match (output.save_model_secs, output.save_model_steps) {
        (0, None) => Every::Steps(u64::MAX),
        (0, Some(steps)) => Every::Steps(steps.max(1)),
        (seconds, _) => Every::secs(seconds),
    };
    session
        .checkpoint_dir(folder)
        .save_checkpoint(every)
        .save_summaries(None)
}

/// A process that runs steps.
struct StepWorker<'w, 'g> {
    settings: &'w Settings,
    network: &'w Network<'g>,
    run: TrainingRun<'w, 'g>,
    images: Images,
    stop: StopSignal,
    printer: Printer,
    /// Index among the workers.
    task: u32,
    /// Step numbers and times by activity of the traced steps.
    step_times: Vec<(u64, StepTime)>,
    /// Time in which the last step waited for its images.
    inputs: Duration,
    /// As `inputs`, of all measured steps.
    waited: Duration,
}

impl<'g> StepWorker<'_, 'g> {
    /// Feeds of the next step.
    fn feeds(&mut self) -> Result<Vec<Feed<'g>>> {
        let began = Instant::now();
        self.images.advance()?;
        let pairs = self.network.inputs.iter().zip(&self.images.towers);
        let feed = |([x, y], [images, labels]): (&[Output<'g>; 2], &[Tensor; 2])| {
            [x.feed(images.clone()), y.feed(labels.clone())]
        };
        let feeds = pairs.flat_map(feed).collect();
        self.inputs = began.elapsed();
        self.waited += self.inputs;
        Ok(feeds)
    }

    /// Goes to the batch that a restored training was at: each step has taken one for each tower.
    fn resume_input(&mut self) -> Result<()> {
        if self.settings.flags.output.train_dir.is_none() {
            return Ok(());
        }
        let steps = self.global_step()?;
        if let Some(files) = &mut self.images.files {
            files.seek(steps.max(0) as u64 * self.settings.towers as u64)?;
        }
        Ok(())
    }

    /// Runs a step with a trace.
    fn traced(&mut self, step: u64) -> Result<Trace> {
        let began = Instant::now();
        let feeds = self.feeds()?;
        let trace = self.run.traced(feeds)?;
        let own = match self.settings.job() {
            Some(_) => format!("/job:worker/replica:0/task:{}/", self.task),
            None => String::new(),
        };
        let took = began.elapsed().as_secs_f64();
        let step_time = StepTime::of(&trace, &own, took, self.inputs.as_secs_f64());
        self.step_times.push((step, step_time));
        Ok(trace.after_input(self.inputs))
    }

    /// Runs a step; returns `None` where the training is over.
    fn step(&mut self) -> Result<Option<StepValues>> {
        let feeds = self.feeds()?;
        let (loss, [first, five]) = (self.network.loss, self.network.top);
        let accuracy = self.settings.flags.run.print_training_accuracy;
        let train = self.settings.mode == Mode::Train;
        Ok(match (train, accuracy) {
            (true, false) => {
                let done = self.run.step::<f32>(loss, feeds)?;
                done.map(|(loss, _)| [loss, 0.0, 0.0])
            }
            (true, true) => {
                let done = self.run.step::<[f32; 3]>([loss, first, five], feeds)?;
                done.map(|(values, _)| values)
            }
            (false, _) => Some(self.run.fetch::<[f32; 3]>([loss, first, five], feeds)?),
        })
    }

    fn warm_up(&mut self) -> Result<()> {
        self.printer.say("Running warm up");
        let trains = self.settings.mode == Mode::Train;
        let plots = self.settings.flags.extensions.plot.is_some();
        for left in (0..self.settings.warmup).rev() {
            if self.stop.is_set() {
                break;
            }
            // The last step but one, as tf_cnn_benchmarks.
            if let (Some(path), 1, true) = (&self.settings.flags.output.trace_file, left, trains) {
                // The plan of a traced step is another one, whose first step takes longer.
                self.traced(0)?;
                let trace = self.traced(0)?;
                // Of several workers the first one writes: the trace has the tasks of its steps.
                if self.task == 0 {
                    trace.save(path)?;
                }
            } else if plots && left == 1 && trains {
                // The figure then has no first traced step.
                self.traced(0)?;
            } else if self.step()?.is_none() {
                break;
            }
        }
        self.printer.say("Done warm up");
        if self.settings.workers > 1 || self.settings.job().is_some() {
            self.printer
                .say("Waiting for other replicas to finish warm up");
            self.run
                .wait_for_workers(self.settings.workers as u32, WORKER_TIMEOUT)?;
        }
        Ok(())
    }

    /// Runs the measured steps; returns the seconds of each.
    fn measure(&mut self) -> Result<Vec<f64>> {
        let settings = self.settings;
        let own = settings.worker_batch();
        self.printer.columns();
        let mut speed = Throughput::new(own, settings.flags.run.display_perf_ewma);
        let visible = !self.printer.json && self.printer.shown;
        let mut progress = Progress::new(settings.steps, own, visible);
        let before = self.global_step()?;
        let began = Instant::now();
        let mut hits = [0.0f64; 2];
        let mut warned = false;
        self.waited = Duration::ZERO;
        let plots = settings.flags.extensions.plot.is_some() && settings.mode == Mode::Train;
        for step in 1..=settings.steps {
            let at = Instant::now();
            let Some(values) = self.step()?.filter(|_| !self.stop.is_set()) else {
                break;
            };
            speed.add(at.elapsed());
            progress.step(values[0]);
            for (sum, value) in hits.iter_mut().zip(&values[1..]) {
                *sum += f64::from(*value);
            }
            if !values[0].is_finite() && !std::mem::replace(&mut warned, true) {
                let text = "the network learns nothing more; --init_learning_rate may be too high for these images";
                output::error(format_args!(
                    "note: the loss of step {step} is {}: {text}",
                    values[0]
                ));
            }
            if plots && step % settings.flags.run.display_every == 0 {
                self.traced(step)?;
            }
            if step == 1 || step % settings.flags.run.display_every == 0 {
                self.printer.step(&progress, step, &speed, values);
            }
        }
        progress.finish();
        let elapsed = began.elapsed().as_secs_f64();
        let done = speed.steps.len() as f64;
        if settings.mode == Mode::Evaluate && done > 0.0 {
            self.printer
                .accuracy(hits.map(|h| h / done), done as usize * own);
        }
        let all = match settings.job().is_some() && !settings.in_step() {
            // Workers that are not synchronized are measured by the global step.
            true => (self.global_step()? - before) as f64 * own as f64,
            false => done * settings.global_batch() as f64,
        };
        let input = self.images.files.as_ref().map(|files| InputReport {
            share: self.waited.as_secs_f64() / elapsed.max(1e-9),
            threads: files.threads,
            files: files.files,
        });
        self.printer
            .total(all / elapsed.max(1e-9), &self.step_times, input);
        Ok(speed.steps)
    }

    fn global_step(&mut self) -> Result<i64> {
        Ok(self.run.fetch(self.network.training.global_step, [])?)
    }
}
