//! Errors of a launch.

use std::io;

use thalweg_protection::ProtectionError;
use thiserror::Error;

/// Error of a launch, before its job runs or while workers are started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// Options that cannot be used, or that this host and the others cannot fulfil.
    #[error("{0}")]
    Argument(String),
    /// A program that cannot be started.
    #[error("'{program}' cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// Reason of the system.
        source: io::Error,
    },
    /// Keys that cannot be read.
    #[error(transparent)]
    Protection(#[from] ProtectionError),
    /// No random numbers for the secret of a job.
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    /// Any other error of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<&str> for LaunchError {
    fn from(text: &str) -> LaunchError {
        LaunchError::Argument(text.to_owned())
    }
}

impl From<String> for LaunchError {
    fn from(text: String) -> LaunchError {
        LaunchError::Argument(text)
    }
}

/// Result of a launch.
pub type Result<T> = std::result::Result<T, LaunchError>;
