//! Errors of a launch.

use std::io;

use thalweg_protection::ProtectionError;
use thiserror::Error;

/// Error of a launch, before its job runs or while workers are started.
#[derive(Error)]
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
    /// A host that has none of the programs that would do.
    #[error("the host '{host}' has none of these programs on its PATH: {programs}")]
    NoProgram {
        /// The host.
        host: String,
        /// The programs.
        programs: String,
    },
    /// The limit on open files is reached.
    #[error("too many files are open ({0}): raise the limit, with `ulimit -n`")]
    OpenFiles(io::Error),
    /// Keys that cannot be read.
    #[error(transparent)]
    Protection(#[from] ProtectionError),
    /// No random numbers for the secret of a job.
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    /// A signal that came before the tasks were started, by its number.
    #[error("ended by {}", crate::signals::name(*.0))]
    Interrupted(i32),
    /// Any other error of the system.
    #[error(transparent)]
    Io(io::Error),
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for LaunchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl LaunchError {
    /// Error of the system in an attempt that fails as `other` says, unless the limit on open files has ended it.
    pub(crate) fn of_attempt(
        error: io::Error,
        other: impl FnOnce(io::Error) -> LaunchError,
    ) -> LaunchError {
        match is_open_files(&error) {
            true => LaunchError::OpenFiles(error),
            false => other(error),
        }
    }
}

/// `true` if the process, or the machine, may open no more files.
fn is_open_files(error: &io::Error) -> bool {
    #[cfg(unix)]
    return matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}

impl From<io::Error> for LaunchError {
    fn from(error: io::Error) -> LaunchError {
        LaunchError::of_attempt(error, LaunchError::Io)
    }
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
