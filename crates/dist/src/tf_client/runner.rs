//! What runs a session's steps: this task alone, or the tasks of a cluster.

use std::sync::Arc;

use thalweg_graph::{GraphData, OutputId};
use thalweg_session::{
    Engine, Fetch, PartPlan, RunOptions, Runner, SessionOptions, TaskChannels, Trace,
};
use thalweg_tensor::Tensor;

use super::status::Status;
use crate::master::steps::{self, ClusterSteps};

/// A step in pieces that is ready to run.
pub(super) enum PreparedPartialRun {
    Local(Box<PartPlan>),
    Cluster(steps::PreparedPartialRun),
}

/// What runs a session's steps.
pub(crate) enum StepRunner {
    /// The task alone: nothing crosses a network.
    Local(Box<Runner>),
    /// The tasks of a cluster.
    Cluster(ClusterSteps),
}

impl StepRunner {
    pub(super) fn local(engine: Engine, options: SessionOptions) -> StepRunner {
        StepRunner::Local(Box::new(Runner::new(engine, options)))
    }

    /// Looks whether the nodes of a graph have places.
    ///
    /// # Errors
    /// One has none.
    pub(super) fn placed(&self, data: &Arc<GraphData>) -> Result<(), Status> {
        match self {
            StepRunner::Local(runner) => match runner.placed(data) {
                Ok(_) => Ok(()),
                Err(e) => Err(Status::from(e)),
            },
            StepRunner::Cluster(steps) => Ok(steps.placed(data)?),
        }
    }

    /// Runs a step: gives its fetches in order, and its trace, which is empty unless it was asked for.
    ///
    /// # Errors
    /// What is wrong with what is asked, and what went wrong in the step.
    pub(super) fn run(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Vec<Option<Tensor>>, Trace), Status> {
        match self {
            StepRunner::Local(runner) => {
                let done = runner.run(data, fetches, feeds, options);
                let (fetched, trace) = done?;
                Ok((fetched.into_values().collect(), trace))
            }
            StepRunner::Cluster(steps) => Ok(steps.run(data, fetches, feeds, options)?),
        }
    }

    /// Makes a step ready whose feeds and fetches come in pieces while it runs.
    ///
    /// # Errors
    /// What is wrong with what is asked.
    pub(super) fn prepare_partial_run(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[OutputId],
    ) -> Result<PreparedPartialRun, Status> {
        Ok(match self {
            StepRunner::Local(runner) => {
                let plan = runner.prepare_partial(data, fetches, feeds);
                PreparedPartialRun::Local(Box::new(plan?))
            }
            StepRunner::Cluster(steps) => {
                PreparedPartialRun::Cluster(steps.prepare_partial_run(data, fetches, feeds)?)
            }
        })
    }

    /// Runs a step in pieces, whose other end is `client`.
    ///
    /// # Errors
    /// What went wrong in the step.
    pub(super) fn run_partial(
        &self,
        pieces: &PreparedPartialRun,
        client: Arc<dyn TaskChannels>,
        options: &RunOptions,
    ) -> Result<(), Status> {
        match (self, pieces) {
            (StepRunner::Local(runner), PreparedPartialRun::Local(plan)) => {
                let done = runner.run_part(plan, &[], &*client, options);
                Ok(done.map(|_| ())?)
            }
            (StepRunner::Cluster(steps), PreparedPartialRun::Cluster(pieces)) => {
                Ok(steps.run_partial(pieces, client, options)?)
            }
            _ => Err(Status::defect(&"a step in pieces of another session")),
        }
    }

    /// Gives up what other tasks hold for the session.
    pub(super) fn close(&self) {
        if let StepRunner::Cluster(steps) = self {
            steps.close();
        }
    }
}
