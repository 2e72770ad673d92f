//! Errors of training loops.
//!
//! ```
//! use thalweg_train::{StepFailure, TrainError};
//!
//! let lost = TrainError::step(StepFailure::Lost, std::io::Error::other("the server is gone"));
//! assert_eq!(lost.failure(), StepFailure::Lost);
//! assert_eq!(lost.to_string(), "the server is gone");
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_checkpoint::CheckpointError;
use thalweg_session::SessionError;
use thalweg_summary::SummaryError;
use thalweg_tensor::TensorError;

use crate::saver_nodes::SaverNodesError;

/// Kind of a step's failure, as far as a training loop reacts to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepFailure {
    /// A task was lost, or has lost its state: a new session may succeed.
    Lost,
    /// The input is exhausted.
    OutOfRange,
    /// Any other failure: the step would fail again.
    Other,
}

/// Errors of training loops.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A step failed.
    #[error("{source}")]
    Step {
        /// Kind of the failure, which decides how a training loop reacts.
        failure: StepFailure,
        /// The session's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A checkpoint cannot be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The nodes that save and restore cannot be built.
    #[error(transparent)]
    SaverNodes(#[from] SaverNodesError),
    /// A summary cannot be written.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// A tensor cannot be created or read.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A file or a folder cannot be written.
    #[error("{}: {reason}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        reason: String,
    },
    /// The global step is needed, and the graph has none.
    #[error(
        "the graph has no global step: make one with create_global_step, and count it up with minimize_counting"
    )]
    NoGlobalStep,
    /// Two hooks, or a hook and the step, feed one output.
    #[error("'{output}' is fed by the step and by a hook, or by two hooks: feed it once")]
    FedTwice {
        /// The output.
        output: String,
    },
    /// A loss that is not finite.
    #[error("Model diverged with loss = {value}.{} '{loss}' is not finite: {why}", at_step(.step))]
    Diverged {
        /// The output.
        loss: String,
        /// Its first element that is not finite.
        value: f64,
        /// The global step before the update.
        step: Option<i64>,
        /// The first value that is not finite.
        why: String,
    },
    /// Variables without a value.
    #[error(
        "variables have no value yet{}: {advice}",
        list_names(.variables)
    )]
    NotReady {
        /// Their names.
        variables: Vec<String>,
        /// Advice.
        advice: &'static str,
    },
    /// The graph holds variables that it does not declare.
    #[error(
        "variables are not declared, so they would not be saved{}: import the graph with its MetaGraph, or load it as a SavedModel, or name what to save with Saver::of",
        list_names(.variables)
    )]
    Undeclared {
        /// Their names.
        variables: Vec<String>,
    },
    /// No session could be created in time.
    #[error("no session for {waited:?}: {why}")]
    SessionTimeout {
        /// Time of the attempts.
        waited: Duration,
        /// Error of the last attempt.
        why: String,
    },
    /// A value in a checkpoint does not fit its variable.
    #[error("checkpoint {}: '{name}' {why}", .prefix.display())]
    Mismatch {
        /// The checkpoint.
        prefix: PathBuf,
        /// The entry.
        name: String,
        /// The mismatch, as a predicate.
        why: String,
    },
    /// The session has failed or was closed.
    #[error("the session is closed: make another one")]
    Closed,
}

fn at_step(step: &Option<i64>) -> String {
    step.map_or(String::new(), |step| format!(" After step {step},"))
}

impl TrainError {
    /// Wraps an error of a session.
    pub fn step(
        failure: StepFailure,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> TrainError {
        TrainError::Step {
            failure,
            source: Box::new(source),
        }
    }

    /// Kind of the failure, for a training loop.
    pub fn failure(&self) -> StepFailure {
        match self {
            TrainError::Step { failure, .. } => *failure,
            _ => StepFailure::Other,
        }
    }

    /// Wraps an error of the file system.
    pub(crate) fn io(path: &Path, error: std::io::Error) -> TrainError {
        TrainError::Io {
            path: path.to_owned(),
            reason: error.to_string(),
        }
    }
}

impl From<SessionError> for TrainError {
    fn from(error: SessionError) -> TrainError {
        let failure = match error.is_out_of_range() {
            true => StepFailure::OutOfRange,
            false => StepFailure::Other,
        };
        TrainError::step(failure, error)
    }
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl fmt::Debug for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Largest number of names that a message lists.
const MAX_LISTED_NAMES: usize = 5;

/// Lists the first of these names, and the number of the others.
fn list_names(names: &[String]) -> String {
    let shown = names[..names.len().min(MAX_LISTED_NAMES)].join(", ");
    match names.len().saturating_sub(MAX_LISTED_NAMES) {
        0 if names.is_empty() => String::new(),
        0 => format!(" ({shown})"),
        more => format!(" ({shown} and {more} more)"),
    }
}
