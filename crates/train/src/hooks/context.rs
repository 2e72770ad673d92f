//! Context: the view of a session that hooks get.

use std::cell::Cell;
use std::path::Path;

use thalweg_graph::OutputId;
use thalweg_session::{Fetch, RunOptions};
use thalweg_summary::{SummaryError, SummaryWriter};
use thalweg_tensor::Tensor;

use crate::error::TrainError;
use crate::log::Log;
use crate::steps::Steps;

/// The view of a session that hooks get.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub(crate) session: &'a dyn Steps,
    pub(crate) global_step: Option<OutputId>,
    pub(crate) stop: &'a Cell<bool>,
    pub(crate) log: &'a Log,
}

impl<'a> Context<'a> {
    /// The session.
    pub fn session(&self) -> &'a dyn Steps {
        self.session
    }

    /// Reads the global step, in a step of its own; `None` if the graph has no global step.
    ///
    /// # Errors
    /// Errors of the step.
    pub fn global_step(&self) -> Result<Option<i64>, TrainError> {
        let Some(output) = self.global_step else {
            return Ok(None);
        };
        let fetch = [Fetch::Value(output)];
        let (values, _) = (self.session).run_step(&fetch, &[], &RunOptions::new())?;
        step_of(values.first().and_then(Option::as_ref)).map(Some)
    }

    /// Like [`Context::global_step`], for hooks that need one.
    ///
    /// # Errors
    /// [`TrainError::NoGlobalStep`].
    pub fn needed_global_step(&self) -> Result<i64, TrainError> {
        self.global_step()?.ok_or(TrainError::NoGlobalStep)
    }

    /// Requests the end of the loop after this step.
    pub fn request_stop(&self) {
        self.stop.set(true);
    }

    /// Creates a writer of event files; on an error it logs it and returns `None`.
    pub(crate) fn summary_writer(&self, folder: &Path) -> Option<SummaryWriter> {
        let made = SummaryWriter::create(folder);
        made.map_err(|error| self.log(&format!("no summaries are written: {error}")))
            .ok()
    }

    /// Writes to an event file. A writer that fails, on a full disk for example, is dropped, and the error is logged:
    /// training goes on without summaries.
    pub(crate) fn write_summary(
        &self,
        writer: &mut Option<SummaryWriter>,
        write: impl FnOnce(&SummaryWriter) -> Result<(), SummaryError>,
    ) {
        if let Some(open) = writer
            && let Err(error) = write(open)
        {
            self.log(&format!("no more summaries are written: {error}"));
            *writer = None;
        }
    }

    /// Logs a line.
    pub fn log(&self, line: &str) {
        self.log.line(line);
    }
}

/// The global step in a tensor.
pub(crate) fn step_of(value: Option<&Tensor>) -> Result<i64, TrainError> {
    let value = value.ok_or(TrainError::NoGlobalStep)?;
    match value.to_scalar::<i64>() {
        Ok(step) => Ok(step),
        // TensorFlow's may have 32 bits.
        Err(_) => match value.to_ints().as_deref() {
            Some([step]) => Ok(*step),
            _ => Err(TrainError::NoGlobalStep),
        },
    }
}
