//! Errors of ranks and collectives.

use std::time::Duration;

use thalweg_launch_env::EnvError;
use thalweg_tensor::DType;
use thiserror::Error;

/// Error of a collective, or of a rank as a whole.
#[derive(Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectiveError {
    /// A rank is lost.
    #[error("rank {rank} is lost: {reason}")]
    Lost {
        /// The lost rank.
        rank: usize,
        /// Reason, as the loss was noticed.
        reason: String,
    },
    /// Ranks run different collectives.
    #[error(
        "rank {rank} runs {theirs}, this rank {ours}: all ranks must run the same graph with the same fetches"
    )]
    Differs {
        /// The other rank.
        rank: usize,
        /// Collective of the other rank.
        theirs: String,
        /// Collective of this rank.
        ours: String,
    },
    /// A rank did not come in time.
    #[error("{what}: waited {waited:?} for rank {rank}")]
    Late {
        /// The missing rank.
        rank: usize,
        /// The subject of the wait.
        what: String,
        /// Time of the wait.
        waited: Duration,
    },
    /// The ranks have not found each other.
    #[error("the ranks do not find each other: {0}")]
    Rendezvous(String),
    /// A reduction that is not defined for a dtype.
    #[error("{op} of {dtype} is not defined")]
    Undefined {
        /// The name of the reduction.
        op: &'static str,
        /// The dtype.
        dtype: DType,
    },
    /// An argument that cannot be used, such as a set of ranks that does not exist.
    #[error("{0}")]
    Argument(String),
    /// The job has ended, for this reason.
    #[error("ended: {0}")]
    Ended(String),
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for CollectiveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl CollectiveError {
    /// Error of a lost rank, for a reason.
    pub(crate) fn lost(rank: usize, reason: impl std::fmt::Display) -> CollectiveError {
        CollectiveError::Lost {
            rank,
            reason: reason.to_string(),
        }
    }
}

impl From<EnvError> for CollectiveError {
    fn from(error: EnvError) -> CollectiveError {
        CollectiveError::Argument(error.to_string())
    }
}

/// Result of a collective.
pub type Result<T> = std::result::Result<T, CollectiveError>;
