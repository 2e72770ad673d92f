//! Implementation of [`thalweg_train::Steps`] for sessions over a cluster.

use thalweg_graph::{Graph, OutputId};
use thalweg_session::{Fetch, RunOptions, Trace};
use thalweg_tensor::Tensor;
use thalweg_train::{StepFailure, Steps, TrainError};

use crate::error::{Cause, ClusterError};
use crate::server::options::ServerError;
use crate::session::Session;

impl Steps for Session<'_> {
    fn graph(&self) -> &Graph {
        Session::graph(self)
    }

    fn run_step(
        &self,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Vec<Option<Tensor>>, Trace), TrainError> {
        Ok(self.run_ids(fetches, feeds, options)?)
    }

    fn is_shared(&self) -> bool {
        true
    }

    // Each task has counters of its own part.
    fn random_state(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    fn set_random_state(&self, _: &[(String, u64)]) {}
}

impl From<ClusterError> for TrainError {
    fn from(error: ClusterError) -> TrainError {
        let failure = match error.cause {
            cause if cause.is_loss() => StepFailure::Lost,
            // A task that came back is another process: its variables have no values.
            Cause::Uninitialized => StepFailure::Lost,
            Cause::OutOfRange => StepFailure::OutOfRange,
            _ => StepFailure::Other,
        };
        TrainError::step(failure, error)
    }
}

impl From<ServerError> for TrainError {
    fn from(error: ServerError) -> TrainError {
        TrainError::step(StepFailure::Other, error)
    }
}
