//! What goes wrong.

use std::path::PathBuf;

use thalweg_collective::CollectiveError;
use thalweg_tensor::TensorError;
use thiserror::Error;

/// Why a process is no rank, or a collective does not go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HvdError {
    /// What ranks do together.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// A round of an elastic job ends, so that other ranks can come or some can go.
    #[error(
        "other ranks wait: the round ends, and the next one goes on from the last commit: return this from the function that elastic::run calls"
    )]
    OthersWait,
    /// A tensor has no memory, or does not have the dtype that is asked for.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The file of a timeline or trace cannot be made.
    #[error("{}: {reason}", .path.display())]
    Timeline {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The system has no thread.
    #[error("the thread of the collectives cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}
