//! Hooks of a training loop: saving, logging, stopping. Names and rules are those of TensorFlow's
//! `tf.train.SessionRunHook`.
//!
//! A [`crate::MonitoredSession`] calls its hooks in this order: `begin`, while the graph may still grow;
//! `after_create_session`, also after a recovery; for each step `before_run` and `after_run`; `end`, unless a step has
//! failed.
//!
//! A custom hook that counts steps:
//!
//! ```
//! use thalweg_train::hooks::{AfterRun, SessionRunHook};
//! use thalweg_train::TrainError;
//!
//! struct Count(u64);
//!
//! impl SessionRunHook for Count {
//!     fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
//!         self.0 += 1;
//!         if self.0 == 3 {
//!             run.request_stop();
//!         }
//!         Ok(())
//!     }
//! }
//! ```

mod feed_fn;
mod final_ops;
mod logging;
mod nan;
mod profiler;
mod saver;
mod step_counter;
mod stop;
mod summary;
mod timer;
mod waiter;

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use thalweg_graph::{Graph, OutputId};
use thalweg_session::{Fetch, RunOptions, Trace};
use thalweg_summary::{SummaryError, SummaryWriter};
use thalweg_tensor::Tensor;

use crate::error::TrainError;
use crate::log::Log;
use crate::steps::Steps;

pub use feed_fn::FeedFnHook;
pub use final_ops::{FinalOpsHook, FinalValues};
pub use logging::LoggingTensorHook;
pub use nan::NanTensorHook;
pub use profiler::ProfilerHook;
pub use saver::{CheckpointSaverHook, CheckpointSaverListener};
pub use step_counter::StepCounterHook;
pub use stop::StopAtStepHook;
pub use summary::SummarySaverHook;
pub use timer::{Every, Timer};
pub use waiter::GlobalStepWaiterHook;

/// Callbacks before, around and after the steps of a [`crate::MonitoredSession`]. Each method does nothing by default.
pub trait SessionRunHook {
    /// Called before the first session: nodes may be added to the graph.
    ///
    /// # Errors
    /// An error ends the training before it begins.
    fn begin(&mut self, graph: &Graph) -> Result<(), TrainError> {
        let _ = graph;
        Ok(())
    }

    /// Called when a session was created and its variables have values.
    ///
    /// # Errors
    /// An error ends the training.
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let _ = session;
        Ok(())
    }

    /// Called before a step: it may add fetches and feeds.
    ///
    /// # Errors
    /// An error ends the training.
    fn before_run(&mut self, run: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        let _ = run;
        Ok(())
    }

    /// Called after a step that did not fail.
    ///
    /// # Errors
    /// An error ends the training.
    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        let _ = run;
        Ok(())
    }

    /// Called after the last step, unless one has failed.
    ///
    /// # Errors
    /// The first error of all hooks is returned to the caller.
    fn end(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let _ = session;
        Ok(())
    }

    /// `true` if it takes part in steps: `before_run` and `after_run` of others are not called.
    fn watches_steps(&self) -> bool {
        true
    }

    /// First global step from which on it needs to know the global step of each step ([`AfterRun::step_before`]): by
    /// default all. Reading it takes time, which a hook that is not due can save.
    fn needs_step_from(&self) -> i64 {
        i64::MIN
    }
}

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
    pub(crate) fn summaries(&self, folder: &Path) -> Option<SummaryWriter> {
        let made = SummaryWriter::create(folder);
        made.map_err(|error| self.log(&format!("no summaries are written: {error}")))
            .ok()
    }

    /// Writes to an event file. A writer that fails, on a full disk for example, is dropped, and the error is logged:
    /// training goes on without summaries.
    pub(crate) fn note(
        &self,
        writer: &mut Option<SummaryWriter>,
        note: impl FnOnce(&SummaryWriter) -> Result<(), SummaryError>,
    ) {
        if let Some(open) = writer
            && let Err(error) = note(open)
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

/// A step that is about to run.
pub struct BeforeRun<'a> {
    pub(crate) fetches: &'a mut Vec<Fetch>,
    pub(crate) feeds: &'a mut Vec<(OutputId, Tensor)>,
    pub(crate) options: &'a mut RunOptions,
    pub(crate) graph: &'a Graph,
}

impl BeforeRun<'_> {
    /// Adds a fetch: its value is the next of [`AfterRun::values`].
    pub fn fetch(&mut self, fetch: Fetch) {
        self.fetches.push(fetch);
    }

    /// Adds a feed.
    ///
    /// # Errors
    /// [`TrainError::FedTwice`] if the step or another hook feeds it too.
    pub fn feed(&mut self, output: OutputId, value: Tensor) -> Result<(), TrainError> {
        if self.feeds.iter().any(|(fed, _)| *fed == output) {
            return Err(TrainError::FedTwice {
                output: self.graph.snapshot().output_name(output),
            });
        }
        self.feeds.push((output, value));
        Ok(())
    }

    /// Requests the trace of the step.
    pub fn trace(&mut self) {
        self.options.trace = true;
    }

    /// Limits the time of the step; the longest of several limits applies.
    pub fn timeout(&mut self, limit: Duration) {
        self.options.timeout = self.options.timeout.max(Some(limit));
    }
}

/// A step that has run.
pub struct AfterRun<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) values: &'a [Option<Tensor>],
    pub(crate) feeds: &'a [(OutputId, Tensor)],
    pub(crate) step_before: Option<i64>,
    pub(crate) trace: &'a Trace,
}

impl<'a> AfterRun<'a> {
    /// Values of the fetches of this hook, in order.
    pub fn values(&self) -> &'a [Option<Tensor>] {
        self.values
    }

    /// Feeds of the step.
    pub fn feeds(&self) -> &'a [(OutputId, Tensor)] {
        self.feeds
    }

    /// The global step before the step: it excludes its own update, and those of other workers meanwhile. `None` if the
    /// graph has none, or if no hook needs it.
    pub fn step_before(&self) -> Option<i64> {
        self.step_before
    }

    /// The trace, if a hook has requested it.
    pub fn trace(&self) -> &'a Trace {
        self.trace
    }

    /// The session, to run other steps with.
    pub fn context(&self) -> Context<'a> {
        self.context
    }

    /// Requests the end of the loop after this step.
    pub fn request_stop(&self) {
        self.context.request_stop();
    }
}
