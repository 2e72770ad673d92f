//! `PollError`: why an endpoint gave no numbers.

use std::fmt;
use std::io::ErrorKind;

use super::limits::{MAX_RESPONSE, REQUEST_TIMEOUT};

/// Why an endpoint gave no numbers. No message has text of the endpoint.
#[derive(Debug)]
pub(super) enum PollError {
    /// The name has no address.
    Resolve(std::io::Error),
    Connect(std::io::Error),
    Read(std::io::Error),
    Timeout,
    NotHttp,
    /// Status other than 200.
    Status(u16),
    TooLong,
    Truncated,
    /// Line of the text that is no OpenMetrics.
    Malformed {
        number: u64,
        reason: &'static str,
    },
    /// OpenMetrics of another program.
    OtherProgram,
}

impl From<std::io::Error> for PollError {
    fn from(error: std::io::Error) -> PollError {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => PollError::Timeout,
            ErrorKind::FileTooLarge => PollError::TooLong,
            _ => PollError::Read(error),
        }
    }
}

impl fmt::Display for PollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PollError::Resolve(error) => write!(f, "its name has no address: {error}"),
            PollError::Connect(error) if error.kind() == ErrorKind::ConnectionRefused => {
                write!(f, "nothing listens there")
            }
            PollError::Connect(error) => write!(f, "no connection: {error}"),
            PollError::Read(error) => write!(f, "the connection broke: {error}"),
            PollError::Timeout => {
                write!(f, "no whole answer within {} s", REQUEST_TIMEOUT.as_secs())
            }
            PollError::NotHttp => write!(
                f,
                "its answer is no HTTP: give the address of --metrics, not of the server"
            ),
            PollError::Status(status) => write!(f, "it answers with HTTP status {status}"),
            PollError::TooLong => write!(f, "its answer has more than {} MiB", MAX_RESPONSE >> 20),
            PollError::Truncated => write!(f, "its text ends before its end, '# EOF'"),
            PollError::Malformed { number, reason } => {
                write!(f, "its text is no OpenMetrics, line {number}: {reason}")
            }
            PollError::OtherProgram => write!(f, "it has no metrics of a Thalweg server"),
        }
    }
}
