//! What can go wrong in a training that lasts.
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

/// Why a step failed, as far as a training loop has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepFailure {
    /// A task was lost, or has lost what it held: a new session may do it.
    Lost,
    /// The input has come to its end.
    OutOfRange,
    /// Anything else: the step would fail again.
    Other,
}

/// What can go wrong in a training that lasts.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A step failed.
    #[error("{source}")]
    Step {
        /// What a training loop does about it.
        failure: StepFailure,
        /// The session's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A checkpoint cannot be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The nodes that save and restore cannot be made.
    #[error(transparent)]
    SaverNodes(#[from] SaverNodesError),
    /// A summary cannot be written.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// A value cannot be made or read.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A file or a folder cannot be written.
    #[error("{}: {reason}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Something needs the global step, and the graph has none.
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
    #[error("Model diverged with loss = NaN.{} '{loss}' is not finite: {why}", at_step(.step))]
    Diverged {
        /// The output.
        loss: String,
        /// The global step before the update.
        step: Option<i64>,
        /// The first value that is not finite.
        why: String,
    },
    /// Variables that nothing gave a value to.
    #[error(
        "variables have no value yet{}: {advice}",
        few(.variables)
    )]
    NotReady {
        /// Their names.
        variables: Vec<String>,
        /// What the reader can do.
        advice: &'static str,
    },
    /// A session was not to be had in time.
    #[error("no session for {waited:?}: {why}")]
    Waited {
        /// For how long it was tried.
        waited: Duration,
        /// Why the last attempt failed.
        why: String,
    },
    /// A value in a checkpoint does not fit what takes it.
    #[error("checkpoint {}: '{name}' {why}", .prefix.display())]
    Mismatch {
        /// The checkpoint.
        prefix: PathBuf,
        /// The entry.
        name: String,
        /// What is wrong, as a predicate.
        why: String,
    },
    /// A step was asked of a session that has failed or was closed.
    #[error("the session is closed: make another one")]
    Closed,
}

fn at_step(step: &Option<i64>) -> String {
    step.map_or(String::new(), |step| format!(" After step {step},"))
}

impl TrainError {
    /// An error of a session.
    pub fn step(
        failure: StepFailure,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> TrainError {
        TrainError::Step {
            failure,
            source: Box::new(source),
        }
    }

    /// What a training loop has to know of it.
    pub fn failure(&self) -> StepFailure {
        match self {
            TrainError::Step { failure, .. } => *failure,
            _ => StepFailure::Other,
        }
    }

    /// An error of the file system.
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

/// The sentence: it is what a program prints that returns the error from `main`.
impl fmt::Debug for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The most names that a message lists.
const NAMES: usize = 5;

/// The first of these names, and how many there are beside them.
fn few(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMES)].join(", ");
    match names.len().saturating_sub(NAMES) {
        0 if names.is_empty() => String::new(),
        0 => format!(" ({shown})"),
        more => format!(" ({shown} and {more} more)"),
    }
}
