//! What runs a session's steps: this task alone, or the tasks of a cluster.

use std::sync::Arc;

use thalweg_graph::{GraphData, OutputId};
use thalweg_session::{
    Engine, Fetch, PartPlan, RunOptions, Runner, SessionOptions, TaskChannels, Trace,
};
use thalweg_tensor::Tensor;

use super::status::Status;
use crate::master::steps::{self, Steps};

/// A step in pieces that is ready to run.
pub(super) enum Pieces {
    Here(Box<PartPlan>),
    Cluster(steps::Pieces),
}

/// What runs a session's steps.
pub(crate) enum Runs {
    /// The task alone: nothing crosses a network.
    Here(Box<Runner>),
    /// The tasks of a cluster.
    Cluster(Steps),
}

impl Runs {
    pub(super) fn here(engine: Engine, options: SessionOptions) -> Runs {
        Runs::Here(Box::new(Runner::new(engine, options)))
    }

    /// Looks whether the nodes of a graph have places.
    ///
    /// # Errors
    /// One has none.
    pub(super) fn placed(&self, data: &Arc<GraphData>) -> Result<(), Status> {
        match self {
            Runs::Here(runner) => match runner.placed(data) {
                Ok(_) => Ok(()),
                Err(e) => Err(Status::from(e)),
            },
            Runs::Cluster(steps) => Ok(steps.placed(data)?),
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
            Runs::Here(runner) => {
                let done = runner.run(data, fetches, feeds, options);
                let (fetched, trace) = done?;
                Ok((fetched.into_values().collect(), trace))
            }
            Runs::Cluster(steps) => Ok(steps.run(data, fetches, feeds, options)?),
        }
    }

    /// Makes a step ready whose feeds and fetches come in pieces while it runs.
    ///
    /// # Errors
    /// What is wrong with what is asked.
    pub(super) fn prepare_pieces(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[OutputId],
    ) -> Result<Pieces, Status> {
        Ok(match self {
            Runs::Here(runner) => {
                let plan = runner.prepare_partial(data, fetches, feeds);
                Pieces::Here(Box::new(plan?))
            }
            Runs::Cluster(steps) => Pieces::Cluster(steps.prepare_pieces(data, fetches, feeds)?),
        })
    }

    /// Runs a step in pieces, whose other end is `client`.
    ///
    /// # Errors
    /// What went wrong in the step.
    pub(super) fn run_pieces(
        &self,
        pieces: &Pieces,
        client: Arc<dyn TaskChannels>,
        options: &RunOptions,
    ) -> Result<(), Status> {
        match (self, pieces) {
            (Runs::Here(runner), Pieces::Here(plan)) => {
                let done = runner.run_part(plan, &[], &*client, options);
                Ok(done.map(|_| ())?)
            }
            (Runs::Cluster(steps), Pieces::Cluster(pieces)) => {
                Ok(steps.run_pieces(pieces, client, options)?)
            }
            _ => Err(Status::defect(&"a step in pieces of another session")),
        }
    }

    /// Gives up what other tasks hold for the session.
    pub(super) fn close(&self) {
        if let Runs::Cluster(steps) = self {
            steps.close();
        }
    }
}
