//! What runs a session's steps: this task alone, or the tasks of a cluster.

use std::sync::Arc;

use thalweg_graph::{GraphData, OutputId, Tensor};
use thalweg_session::{Engine, Fetch, RunOptions, Runner, SessionOptions, Trace};
use tonic::Code;

use super::steps::Steps;
use crate::status::Status;

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
                Err(e) => Err(Status::from(&e)),
            },
            Runs::Cluster(steps) => steps.placed(data),
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
                let (fetched, trace) = done.map_err(|e| Status::from(&e))?;
                Ok((fetched.into_values().collect(), trace))
            }
            Runs::Cluster(steps) => {
                let values = steps.run(data, fetches, feeds, options)?;
                Ok((values, Trace::default()))
            }
        }
    }

    /// What runs steps in pieces.
    ///
    /// # Errors
    /// Steps over several tasks do not come in pieces.
    pub(super) fn in_pieces(&self) -> Result<&Runner, Status> {
        match self {
            Runs::Here(runner) => Ok(runner),
            Runs::Cluster(_) => Err(Status::new(
                Code::Unimplemented,
                "partial runs over several tasks are not supported: filter the devices of the session \
                 to one task",
            )),
        }
    }

    /// Gives up what other tasks hold for the session.
    pub(super) fn close(&self) {
        if let Runs::Cluster(steps) = self {
            steps.close();
        }
    }
}
