//! What can go wrong with event files.
//!
//! ```
//! use thalweg_summary::{SummaryError, SummaryWriter};
//!
//! // A file is no folder.
//! let error = SummaryWriter::create("/dev/null/logs").unwrap_err();
//! assert!(matches!(error, SummaryError::Create { .. }));
//! assert!(error.to_string().starts_with("/dev/null/logs: "));
//! ```

use std::path::PathBuf;

use thalweg_graphdef::ExportError;
use thiserror::Error;

/// Why an event could not be written or read.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// The folder or the file cannot be made.
    #[error("{}: no event file can be made there: {reason}; choose a folder that may be written to", .path.display())]
    Create {
        /// The folder or the file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The file could not be written, or not further. What came before is in it, and nothing after. Every later
    /// call of the writer gives this error again.
    #[error("{}: writing events failed: {reason}; if the disk is full, free some space, then create a new writer", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
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
        /// What is wrong with the value, and what would be right.
        reason: String,
    },
    /// A graph that no message can hold.
    #[error("{}: the graph: {reason}", .path.display())]
    Graph {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: ExportError,
    },
    /// A message that is longer than protobuf allows, 2 GiB.
    #[error("{}: an event of {bytes} bytes is too large for a reader; an event may have {}", .path.display(), crate::record::MOST_BYTES)]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How many bytes the event has.
        bytes: usize,
    },
    /// The file cannot be read.
    #[error("{}: the event file cannot be read: {reason}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Bytes that no writer of events made. Nothing behind them can be read.
    #[error("{}: byte {offset}: {reason}; the events before it are whole", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the record begins, in bytes from the start of the file.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
}

/// The sentence: it is what a program prints that returns the error from `main`.
impl std::fmt::Debug for SummaryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
