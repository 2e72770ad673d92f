//! What a training loop does beside its steps: saving, logging, stopping. Names and rules are those of TensorFlow's
//! `tf.train.SessionRunHook`.
//!
//! A [`crate::MonitoredSession`] calls its hooks in this order: `begin`, while the graph may still grow;
//! `after_create_session`, also after a recovery; for each step `before_run` and `after_run`; `end`, unless a step has
//! failed.
//!
//! A hook of one's own, which counts steps:
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

/// What is called before, around and after the steps of a [`crate::MonitoredSession`]. Each method does nothing unless
/// it is implemented.
pub trait SessionRunHook {
    /// Before the first session: nodes may be added to the graph.
    ///
    /// # Errors
    /// Whatever keeps the training from beginning.
    fn begin(&mut self, graph: &Graph) -> Result<(), TrainError> {
        let _ = graph;
        Ok(())
    }

    /// A session was made, and its variables have values.
    ///
    /// # Errors
    /// Whatever keeps the training from going on.
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let _ = session;
        Ok(())
    }

    /// Before a step: it may fetch and feed more.
    ///
    /// # Errors
    /// Whatever keeps the training from going on.
    fn before_run(&mut self, run: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        let _ = run;
        Ok(())
    }

    /// After a step that did not fail.
    ///
    /// # Errors
    /// Whatever keeps the training from going on.
    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        let _ = run;
        Ok(())
    }

    /// After the last step, unless one has failed.
    ///
    /// # Errors
    /// What could not be done.
    fn end(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let _ = session;
        Ok(())
    }

    /// Whether it looks at steps at all: one that only begins and ends is not asked at each.
    fn watches_steps(&self) -> bool {
        true
    }

    /// From which global step on it has to know the global step of each step ([`AfterRun::step_before`]): from the
    /// first, unless it says otherwise. To read it takes time, which a hook that is not due can save.
    fn needs_step_from(&self) -> i64 {
        i64::MIN
    }
}

/// A session as hooks see it.
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

    /// The global step now, which a step of its own reads; none where the graph has no global step.
    ///
    /// # Errors
    /// Those of the step.
    pub fn global_step(&self) -> Result<Option<i64>, TrainError> {
        let Some(output) = self.global_step else {
            return Ok(None);
        };
        let fetch = [Fetch::Value(output)];
        let (values, _) = (self.session).run_step(&fetch, &[], &RunOptions::new())?;
        step_of(values.first().and_then(Option::as_ref)).map(Some)
    }

    /// As [`Context::global_step`], for who cannot work without one.
    ///
    /// # Errors
    /// [`TrainError::NoGlobalStep`].
    pub fn needed_global_step(&self) -> Result<i64, TrainError> {
        self.global_step()?.ok_or(TrainError::NoGlobalStep)
    }

    /// Lets the loop end after this step.
    pub fn request_stop(&self) {
        self.stop.set(true);
    }

    /// A writer of event files; none where there cannot be one, which people are told.
    pub(crate) fn summaries(&self, folder: &Path) -> Option<SummaryWriter> {
        let made = SummaryWriter::create(folder);
        made.map_err(|error| self.log(&format!("no summaries are written: {error}")))
            .ok()
    }

    /// Writes with a writer of event files. One that fails, on a full disk for example, is given up, and people are told:
    /// a training is worth more than its curves.
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

    /// Tells people a line.
    pub fn log(&self, line: &str) {
        self.log.line(line);
    }
}

/// The global step in a tensor.
pub(crate) fn step_of(value: Option<&Tensor>) -> Result<i64, TrainError> {
    let value = value.ok_or(TrainError::NoGlobalStep)?;
    match value.to_scalar::<i64>() {
        Ok(step) => Ok(step),
        // TensorFlow's may be of 32 bits.
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
    /// Fetches one more: its value is the next of [`AfterRun::values`].
    pub fn fetch(&mut self, fetch: Fetch) {
        self.fetches.push(fetch);
    }

    /// Feeds one more output.
    ///
    /// # Errors
    /// [`TrainError::FedTwice`], where the step or another hook feeds it too.
    pub fn feed(&mut self, output: OutputId, value: Tensor) -> Result<(), TrainError> {
        if self.feeds.iter().any(|(fed, _)| *fed == output) {
            return Err(TrainError::FedTwice {
                output: self.graph.snapshot().output_name(output),
            });
        }
        self.feeds.push((output, value));
        Ok(())
    }

    /// Asks for the trace of the step.
    pub fn trace(&mut self) {
        self.options.trace = true;
    }

    /// Limits the time of the step; of several limits the longest counts.
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
    /// The values of what this hook fetched, in order.
    pub fn values(&self) -> &'a [Option<Tensor>] {
        self.values
    }

    /// What the step was fed.
    pub fn feeds(&self) -> &'a [(OutputId, Tensor)] {
        self.feeds
    }

    /// The global step as the step found it: its own update, and those of other workers meanwhile, are not in it. Nothing
    /// where the graph has none, or where no hook has to know it.
    pub fn step_before(&self) -> Option<i64> {
        self.step_before
    }

    /// The trace, where a hook has asked for it.
    pub fn trace(&self) -> &'a Trace {
        self.trace
    }

    /// The session, to run other steps with.
    pub fn context(&self) -> Context<'a> {
        self.context
    }

    /// Lets the loop end after this step.
    pub fn request_stop(&self) {
        self.context.request_stop();
    }
}
