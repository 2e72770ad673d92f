//! What goes wrong.

use thalweg_collective::CollectiveError;
use thiserror::Error;

/// Why a process is no rank, or a collective does not go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HvdError {
    /// What ranks do together.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// The system has no thread.
    #[error("the thread of the collectives cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}
