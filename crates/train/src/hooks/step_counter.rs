//! StepCounterHook: logs the speed of training.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use thalweg_summary::SummaryWriter;

use super::context::Context;
use super::hook::SessionRunHook;
use super::run::{AfterRun, BeforeRun};
use super::timer::{Every, Timer};
use crate::error::TrainError;

/// Number of checks with an unchanged global step after which it is logged.
const MAX_STALLED_CHECKS: u32 = 20;

/// Logs the global steps per second, and writes them as the summary `global_step/sec`: `tf.train.StepCounterHook`.
///
/// Beside them stands the share of the time that lies between the steps, from 0 to 1, as the summary `between_steps`: a
/// program waits for its input there, and other hooks run.
#[derive(Debug)]
pub struct StepCounterHook {
    every: Every,
    timer: Timer,
    folder: Option<PathBuf>,
    writer: Option<SummaryWriter>,
    still: u32,
    last: i64,
    /// End of the last step.
    ended: Option<Instant>,
    /// Time between steps since the last log.
    between: Duration,
}

impl StepCounterHook {
    /// Logs in this interval.
    pub fn new(every: Every) -> StepCounterHook {
        StepCounterHook {
            every,
            timer: Timer::new(every),
            folder: None,
            writer: None,
            still: 0,
            last: -1,
            ended: None,
            between: Duration::ZERO,
        }
    }

    /// Writes summaries to this folder.
    pub fn output_dir(self, folder: impl Into<PathBuf>) -> StepCounterHook {
        StepCounterHook {
            folder: Some(folder.into()),
            ..self
        }
    }

    /// Writes summaries with this writer.
    pub fn writer(self, writer: SummaryWriter) -> StepCounterHook {
        StepCounterHook {
            writer: Some(writer),
            ..self
        }
    }
}

impl SessionRunHook for StepCounterHook {
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        session.needed_global_step()?;
        self.timer = Timer::new(self.every);
        // Time without a session is not between steps.
        self.ended = None;
        if let (None, Some(folder)) = (&self.writer, &self.folder) {
            self.writer = session.summary_writer(folder);
        }
        Ok(())
    }

    fn before_run(&mut self, _: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        if let Some(ended) = self.ended.take() {
            self.between += ended.elapsed();
        }
        Ok(())
    }

    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        self.ended = Some(Instant::now());
        let Some(before) = run.step_before() else {
            return Ok(());
        };
        self.still = match before == self.last {
            true => self.still + 1,
            false => 0,
        };
        self.last = before;
        if self.still == MAX_STALLED_CHECKS {
            run.context().log(&format!(
                "the global step is {before} for {MAX_STALLED_CHECKS} steps: does the training count it up, as with minimize_counting?"
            ));
        }
        if !self.timer.is_due(before.saturating_add(1)) {
            return Ok(());
        }
        let step = run.context().needed_global_step()?;
        let between = std::mem::take(&mut self.between).as_secs_f64();
        if let Some((steps, time)) = self.timer.done(step) {
            let seconds = time.as_secs_f64().max(1e-9);
            let rate = steps as f64 / seconds;
            let share = between / seconds;
            let percent = 100.0 * share;
            run.context().log(&format!(
                "global_step/sec: {rate:.6} ({percent:.1}% of the time between steps)"
            ));
            run.context().write_summary(&mut self.writer, |w| {
                w.scalar("global_step/sec", rate as f32, step)?;
                w.scalar("between_steps", share as f32, step)
            });
        }
        Ok(())
    }

    fn needs_step_from(&self) -> i64 {
        self.timer.due_from().saturating_sub(1)
    }

    fn end(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        session.write_summary(&mut self.writer, SummaryWriter::flush);
        Ok(())
    }
}
