//! Errors of fits.

use thalweg_hvd::HvdError;
use thalweg_session::SessionError;
use thalweg_tensor::TensorError;
use thalweg_train::TrainError;
use thiserror::Error;

/// Error of a fit or a prediction.
#[derive(Error)]
#[non_exhaustive]
pub enum StatsError {
    /// An option or the shape of the data.
    #[error("{0}")]
    Invalid(String),
    /// A block of rows that a pass cannot take.
    #[error("in the rows from row {first_row} of this rank: {source}")]
    Block {
        /// The first row of the block, among those of the rank.
        first_row: usize,
        /// The error of the step; it has the row in the block, and the column.
        source: SessionError,
    },
    /// A step failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The ranks did not come together.
    #[error(transparent)]
    Ranks(#[from] HvdError),
    /// A round of an elastic job.
    #[error(transparent)]
    Round(#[from] TrainError),
    /// A tensor of another dtype or shape.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The function that takes blocks has ended a pass: it needs no more of them.
    #[error("the pass over the rows was ended")]
    Ended,
    /// The source of the rows failed.
    #[error("the rows are not read: {0}")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for StatsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl StatsError {
    /// An error with this text.
    pub(crate) fn invalid(text: impl Into<String>) -> StatsError {
        StatsError::Invalid(text.into())
    }
}
