//! SummarySaverHook: writes summaries of steps.

use std::path::PathBuf;

use thalweg_graph::OutputId;
use thalweg_session::Fetch;
use thalweg_summary::{SessionEvent, SummaryWriter};
use thalweg_tensor::Tensor;

use super::context::Context;
use super::hook::SessionRunHook;
use super::run::{AfterRun, BeforeRun};
use super::timer::{Every, Timer};
use crate::error::TrainError;

/// Writes the results of summary ops every `n` steps, or in an interval of time: `tf.train.SummarySaverHook`.
///
/// The output is a string, or several: a merged summary.
#[derive(Debug)]
pub struct SummarySaverHook {
    summary: OutputId,
    timer: Timer,
    folder: Option<PathBuf>,
    writer: Option<SummaryWriter>,
    due: bool,
    /// Global step after the next run.
    next: i64,
}

impl SummarySaverHook {
    /// Writes the summaries of this output to a folder.
    pub fn new(summary: OutputId, every: Every, folder: impl Into<PathBuf>) -> SummarySaverHook {
        SummarySaverHook {
            summary,
            timer: Timer::new(every),
            folder: Some(folder.into()),
            writer: None,
            due: false,
            next: 1,
        }
    }

    /// Writes the summaries of this output with a writer.
    pub fn with_writer(summary: OutputId, every: Every, writer: SummaryWriter) -> SummarySaverHook {
        SummarySaverHook {
            summary,
            timer: Timer::new(every),
            folder: None,
            writer: Some(writer),
            due: false,
            next: 1,
        }
    }
}

impl SessionRunHook for SummarySaverHook {
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let restored = session.global_step()?.unwrap_or(0);
        self.next = restored.saturating_add(1);
        if let (None, Some(folder)) = (&self.writer, &self.folder) {
            self.writer = session.summary_writer(folder);
        }
        // TensorBoard drops events that an earlier run wrote of later steps.
        let start = |w: &SummaryWriter| w.session_log(SessionEvent::Start, restored);
        session.write_summary(&mut self.writer, start);
        Ok(())
    }

    fn before_run(&mut self, run: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        self.due = self.timer.is_due(self.next);
        if self.due {
            run.fetch(Fetch::Value(self.summary));
        }
        Ok(())
    }

    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        let step = match run.step_before() {
            Some(before) => before.saturating_add(1),
            None => self.next,
        };
        self.next = step.saturating_add(1);
        if !self.due {
            return Ok(());
        }
        self.timer.done(step);
        let value = run.values().first().and_then(Option::as_ref);
        let summaries = value.map(Tensor::as_strings).transpose()?;
        for summary in summaries.unwrap_or_default() {
            (run.context()).write_summary(&mut self.writer, |w| w.summary(summary, step));
        }
        Ok(())
    }

    fn end(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        session.write_summary(&mut self.writer, SummaryWriter::flush);
        Ok(())
    }
}
