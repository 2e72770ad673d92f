//! Errors of event files.
//!
//! ```
//! use thalweg_summary::{SummaryError, SummaryWriter};
//!
//! // A file is not a folder.
//! let error = SummaryWriter::create("/dev/null/logs").unwrap_err();
//! assert!(matches!(error, SummaryError::Create { .. }));
//! assert!(error.to_string().starts_with("/dev/null/logs: "));
//! ```

use std::path::PathBuf;

use thalweg_graphdef::ExportError;
use thiserror::Error;

/// The reason why an event could not be written or read.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// The folder or the file cannot be created.
    #[error("{}: no event file can be made there: {reason}; choose a folder that may be written to", .path.display())]
    Create {
        /// The folder or the file.
        path: PathBuf,
        /// The system's message.
        reason: String,
    },
    /// A write failed. Earlier events are in the file, later ones are not. Every later call of the
    /// writer returns this error again.
    #[error("{}: writing events failed: {reason}; if the disk is full, free some space, then create a new writer", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's message.
        reason: String,
    },
    /// The writer was closed.
    #[error("{}: the writer of this file was closed; create a new one, which writes a file of its own", .path.display())]
    Closed {
        /// The file.
        path: PathBuf,
    },
    /// A value that TensorBoard cannot show in this way.
    #[error("{}: the summary \"{tag}\": {reason}", .path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The summary's tag.
        tag: String,
        /// The mistake, and how to correct it.
        reason: String,
    },
    /// A graph that no message can hold.
    #[error("{}: the graph: {reason}", .path.display())]
    Graph {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: ExportError,
    },
    /// A message that is longer than protobuf allows, 2 GiB.
    #[error("{}: an event of {bytes} bytes is too large for a reader; an event may have {}", .path.display(), thalweg_data::MAX_RECORD_BYTES)]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The size of the event, in bytes.
        bytes: usize,
    },
    /// The file cannot be read.
    #[error("{}: the event file cannot be read: {reason}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's message.
        reason: String,
    },
    /// Bytes that are not a record of events. Nothing after them can be read.
    #[error("{}: byte {offset}: {reason}; the events before it are whole", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The offset of the record, in bytes from the start of the file.
        offset: u64,
        /// The defect.
        reason: &'static str,
    },
}

/// Prints the message: a program that returns the error from `main` prints this.
impl std::fmt::Debug for SummaryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
