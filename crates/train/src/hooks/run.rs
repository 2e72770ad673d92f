//! BeforeRun and AfterRun: a step as hooks see it.

use std::time::Duration;

use thalweg_graph::{Graph, OutputId};
use thalweg_session::{Fetch, RunOptions, Trace};
use thalweg_tensor::Tensor;

use super::context::Context;
use crate::error::TrainError;

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
        *self.options = self.options.clone().traced();
    }

    /// Requests a check of every value of the step: the first one that is not finite is an error of its node.
    pub fn check(&mut self) {
        *self.options = self.options.clone().checked();
    }

    /// Limits the time of the step; the longest of several limits applies.
    pub fn timeout(&mut self, limit: Duration) {
        let limit = self.options.time_limit().max(Some(limit));
        *self.options = self.options.clone().timeout(limit);
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
