//! RecordError: errors of the framing of TFRecord files.

use std::io;

/// Error of a [`RecordReader`](crate::RecordReader).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The source cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The source ends inside a record.
    #[error("the last record is cut off")]
    Truncated,
    /// The checksum of a length does not match.
    #[error("the length of a record does not match its checksum")]
    LengthChecksum,
    /// A length is above [`MAX_RECORD_BYTES`](crate::MAX_RECORD_BYTES).
    #[error("a record is longer than 2 GiB")]
    TooLong,
    /// The memory limit does not allow a record.
    #[error("there is no memory for a record of {bytes} bytes or more")]
    Memory {
        /// The bytes that were asked for.
        bytes: usize,
    },
    /// The checksum of the data does not match.
    #[error("the data of a record do not match their checksum")]
    DataChecksum,
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
