//! What goes wrong between ranks.

use std::time::Duration;

use thalweg_launch_env::EnvError;
use thalweg_tensor::DType;
use thiserror::Error;

/// Why a collective, or a rank as a whole, does not go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectiveError {
    /// A rank has gone.
    #[error("rank {rank} is lost: {reason}")]
    Lost {
        /// Which one.
        rank: usize,
        /// How that was noticed.
        reason: String,
    },
    /// Ranks run different collectives.
    #[error(
        "rank {rank} runs {theirs}, this rank {ours}: all ranks must run the same graph with the same fetches"
    )]
    Differs {
        /// The other rank.
        rank: usize,
        /// What that one runs.
        theirs: String,
        /// What this one runs.
        ours: String,
    },
    /// A rank did not come for too long.
    #[error("{what}: waited {waited:?} for rank {rank}")]
    Late {
        /// The rank that is waited for.
        rank: usize,
        /// What is waited for.
        what: String,
        /// For how long.
        waited: Duration,
    },
    /// The ranks have not found each other.
    #[error("the ranks do not find each other: {0}")]
    Rendezvous(String),
    /// A reduction that is not defined.
    #[error("{op} of {dtype} is not defined")]
    Undefined {
        /// The name of the reduction.
        op: &'static str,
        /// The dtype.
        dtype: DType,
    },
    /// A rank or a set of ranks that does not exist.
    #[error("{0}")]
    Argument(String),
    /// Something ended what this rank did.
    #[error("ended: {0}")]
    Ended(String),
}

impl CollectiveError {
    /// A rank that is lost for this reason.
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

/// What a collective gives.
pub type Result<T> = std::result::Result<T, CollectiveError>;
