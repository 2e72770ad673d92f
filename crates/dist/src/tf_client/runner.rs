//! Runner of a session's steps: on this task alone, or over the tasks of a cluster.

use std::sync::Arc;

use thalweg_graph::{DeviceSpec, Placement};
use thalweg_graph::{GraphData, OutputId};
use thalweg_session::{
    Engine, Fetch, PartPlan, RunOptions, Runner, SessionOptions, TaskChannels, Trace,
};
use thalweg_tensor::Tensor;

use super::refusal::Refusal;
use super::status::Status;
use crate::master::steps::{self, ClusterSteps};

/// A partial run that is ready to start.
pub(super) enum PreparedPartialRun {
    Local(Box<PartPlan>),
    Cluster(steps::PartialRunPlan),
}

/// Runner of a session's steps.
pub(crate) enum StepRunner {
    /// This task alone, without the network.
    Local(Box<Runner>),
    /// The tasks of a cluster.
    Cluster(ClusterSteps),
}

impl StepRunner {
    pub(super) fn local(engine: Engine, options: SessionOptions) -> StepRunner {
        StepRunner::Local(Box::new(Runner::new(engine, options)))
    }

    /// Returns the placement of a graph's nodes.
    ///
    /// # Errors
    /// A node has no device.
    pub(super) fn placed(&self, data: &Arc<GraphData>) -> Result<Arc<Placement>, Refusal> {
        let placed = match self {
            StepRunner::Local(runner) => runner.placed(data),
            StepRunner::Cluster(steps) => {
                let placed = steps.placed(data);
                placed.map_err(|e| Refusal::OfGraph(e.into()))?
            }
        };
        placed.map_err(|e| match e.lacks_kernel() {
            true => Refusal::OfNodes(e.into()),
            false => Refusal::OfGraph(e.into()),
        })
    }

    /// Runs a step. Returns its fetches in order, and its trace, which is empty unless it was requested.
    ///
    /// # Errors
    /// The request is invalid, or the step has failed.
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

    /// Prepares a partial run.
    ///
    /// # Errors
    /// The request is invalid.
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

    /// Runs a partial run, with the channels of its client.
    ///
    /// # Errors
    /// The step has failed.
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

    /// Returns the devices of each task of the session's own cluster, this task's first; `None` if it has none.
    pub(super) fn own_cluster_devices(&self) -> Option<Vec<Vec<DeviceSpec>>> {
        match self {
            StepRunner::Local(_) => None,
            StepRunner::Cluster(steps) => steps.own_cluster_devices(),
        }
    }

    /// Closes the session on the other tasks.
    pub(super) fn close(&self) {
        if let StepRunner::Cluster(steps) = self {
            steps.close();
        }
    }
}
