//! Errors of ranks.

use std::path::PathBuf;

use thalweg_collective::CollectiveError;
use thalweg_tensor::TensorError;
use thalweg_train::{StepFailure, TrainError};
use thiserror::Error;

/// Error of meeting other ranks, or of a collective.
#[derive(Error)]
#[non_exhaustive]
pub enum HvdError {
    /// A collective failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// A round of an elastic job ends, so that ranks can join or leave.
    #[error(
        "other ranks wait: the round ends, and the next one goes on from the last commit: return this from the function that elastic::run calls"
    )]
    OthersWait,
    /// A tensor cannot be allocated, or does not have the requested dtype.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The file of a timeline or trace cannot be made.
    #[error("{}: {reason}", .path.display())]
    Timeline {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        reason: String,
    },
    /// A thread cannot be started.
    #[error("the thread of the collectives cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for HvdError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl HvdError {
    /// Wraps the error as that of a training step.
    pub(crate) fn into_train_error(self) -> TrainError {
        TrainError::step(StepFailure::Other, self)
    }
}
