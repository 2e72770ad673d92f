//! Errors of reading and writing files of weights.
//!
//! ```
//! use thalweg_checkpoint::{BundleReader, CheckpointError};
//!
//! let error = BundleReader::open("/nowhere/model.ckpt-1").unwrap_err();
//! assert!(matches!(error, CheckpointError::Missing { .. }));
//! // The message is the same for {} and {:?}.
//! assert_eq!(format!("{error}"), format!("{error:?}"));
//! ```

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thalweg_tensor::TensorError;
use thiserror::Error;

/// An error of reading or writing files of weights. The message names the file and, if there is
/// one, the entry.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A system call failed.
    #[error("{path} cannot be {action}: {message}", path = .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The failed action, as a participle: "read", "written", "renamed".
        action: &'static str,
        /// The system's kind of error.
        kind: io::ErrorKind,
        /// The system's message.
        message: String,
    },
    /// There is no checkpoint, or no file of weights, under this name.
    #[error("there is no {kind} at {path}: {advice}", path = .path.display())]
    Missing {
        /// The requested path.
        path: PathBuf,
        /// The kind of file that was looked for: "checkpoint", "file of weights".
        kind: &'static str,
        /// Advice for the user.
        advice: String,
    },
    /// A file is torn, damaged, or of another format.
    #[error("{file}{entry} {what}{newest}", file = .file.display(), entry = of_entry(.entry), newest = or_newest(.newest))]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// The entry, if one is at fault.
        entry: Option<String>,
        /// The defect, as a predicate: "ends in the middle of its index".
        what: String,
        /// The newest checkpoint of the same folder that can be used instead, if there is one.
        newest: Option<PathBuf>,
    },
    /// The files are intact, but hold something that this engine does not read or write.
    #[error("{file}{entry} {what}", file = .file.display(), entry = of_entry(.entry))]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The entry, if one is at fault.
        entry: Option<String>,
        /// The unsupported feature and advice, as a predicate.
        what: String,
    },
    /// No entry has this name. The message begins as TensorFlow's.
    #[error("Key {name} not found in checkpoint {file}{hint}", file = .file.display())]
    NoEntry {
        /// The name.
        name: String,
        /// The checkpoint's prefix, or the file.
        file: PathBuf,
        /// Similar names, or the number of entries.
        hint: String,
    },
    /// Two tensors of one name.
    #[error("{file} has {name} already: give each tensor a name of its own", file = .file.display())]
    Duplicate {
        /// The name.
        name: String,
        /// The file that is being written.
        file: PathBuf,
    },
    /// An invalid slice, or an invalid text of one.
    #[error("{slice} is no slice{what}")]
    Slice {
        /// The slice's text.
        slice: String,
        /// The mistake, with advice.
        what: String,
    },
    /// The file's entry cannot become a tensor.
    #[error("{file}{entry}: {error}", file = .file.display(), entry = of_entry(.entry))]
    Tensor {
        /// The file.
        file: PathBuf,
        /// The entry.
        entry: Option<String>,
        /// The reason.
        error: TensorError,
    },
    /// A call of a writer after a failure.
    #[error("{file} was not written, since a write before this one failed: begin a new save", file = .file.display())]
    Failed {
        /// The file.
        file: PathBuf,
    },
}

/// Prints the message: a program that returns the error from `main` prints this.
impl fmt::Debug for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn of_entry(entry: &Option<String>) -> String {
    entry
        .as_ref()
        .map_or(String::new(), |e| format!(", entry {e},"))
}

fn or_newest(newest: &Option<PathBuf>) -> String {
    newest.as_ref().map_or(String::new(), |path| {
        format!(
            "; the newest usable checkpoint beside it is {}: restore that one",
            path.display()
        )
    })
}

impl CheckpointError {
    pub(crate) fn io(path: &Path, action: &'static str, error: &io::Error) -> CheckpointError {
        CheckpointError::Io {
            path: path.to_owned(),
            action,
            kind: error.kind(),
            message: error.to_string(),
        }
    }

    pub(crate) fn corrupt(file: &Path, what: impl Into<String>) -> CheckpointError {
        CheckpointError::Corrupt {
            file: file.to_owned(),
            entry: None,
            what: what.into(),
            newest: None,
        }
    }

    pub(crate) fn corrupt_entry(
        file: &Path,
        entry: impl Into<String>,
        what: impl Into<String>,
    ) -> CheckpointError {
        CheckpointError::Corrupt {
            file: file.to_owned(),
            entry: Some(entry.into()),
            what: what.into(),
            newest: None,
        }
    }

    /// The error without a checkpoint to use instead.
    pub(crate) fn without_newest(self) -> CheckpointError {
        match self {
            CheckpointError::Corrupt {
                file, entry, what, ..
            } => CheckpointError::Corrupt {
                file,
                entry,
                what,
                newest: None,
            },
            other => other,
        }
    }

    pub(crate) fn unsupported(
        file: &Path,
        entry: Option<&str>,
        what: impl Into<String>,
    ) -> CheckpointError {
        CheckpointError::Unsupported {
            file: file.to_owned(),
            entry: entry.map(str::to_owned),
            what: what.into(),
        }
    }

    pub(crate) fn tensor(file: &Path, entry: &str, error: TensorError) -> CheckpointError {
        CheckpointError::Tensor {
            file: file.to_owned(),
            entry: Some(entry.to_owned()),
            error,
        }
    }
}
