//! Errors of studies.

use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, StudyError>;

/// Error of a study.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// A grid without points, or with contradicting ones.
    #[error("{0}")]
    Grid(String),
    /// The file of records cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A line of the file of records cannot be read.
    #[error("{}: line {line}: {reason}: mend or remove the line, or give another folder", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// The file has records of another study.
    #[error(
        "{} has runs of another study ({found}): give another folder, or the same program and options",
        path.display()
    )]
    OtherStudy {
        /// The file.
        path: PathBuf,
        /// Command of that study.
        found: String,
    },
}
