//! Errors as a client of TensorFlow gets them: a code, which becomes the type of a Python exception,
//! and a text.

use thalweg_graphdef::ImportError;
use thalweg_session::SessionError;
use thalweg_tensor::{DType, Shape};
use thiserror::Error;
use tonic::Code;

use crate::error::{Cause, ClusterError};
use crate::limit_names::EXPANDED_BYTES;
use crate::transport::error_codec::truncated;

/// What went wrong, for a client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Status {
    /// What kind of error it is.
    pub code: Code,
    /// What people read.
    pub message: String,
    /// The limit of the server that was met, by its name.
    pub(crate) limit: Option<&'static str>,
}

/// The longest text that goes into a trailer: clients take headers of 16 KiB.
const MAX_TRAILER_TEXT: usize = 3072;

impl Status {
    /// A status of this code.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status {
            code,
            message: message.into(),
            limit: None,
        }
    }

    /// What should never be.
    pub(crate) fn defect(error: &dyn std::fmt::Display) -> Status {
        let text = format!("a defect: {error}. Please report it");
        Status::new(Code::Internal, text)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Status {
        Status::new(Code::InvalidArgument, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Status {
        Status::new(Code::NotFound, message)
    }

    /// The same with the node that it is of, as TensorFlow's client finds it: it then knows the op.
    fn of_node(self, node: &str) -> Status {
        Status {
            message: format!("{}\n\t [[{{{{node {node}}}}}]]", self.message),
            ..self
        }
    }
}

impl From<Status> for tonic::Status {
    fn from(status: Status) -> tonic::Status {
        let message = truncated(status.message, MAX_TRAILER_TEXT);
        tonic::Status::new(status.code, message)
    }
}

/// The error of a limit that was met: what was too much, and what raises the limit.
pub(crate) fn limit_exceeded(name: &'static str, what: &dyn std::fmt::Display) -> Status {
    let flag = name.replace('_', "-");
    let text = format!("{what} (the server's --{flag}, Limits::{name}, raises it)");
    Status {
        limit: Some(name),
        ..Status::new(Code::ResourceExhausted, text)
    }
}

/// What TensorFlow's client knows a cause by.
fn code(cause: Cause) -> Code {
    match cause {
        Cause::Kernel | Cause::Invalid => Code::InvalidArgument,
        Cause::Uninitialized => Code::FailedPrecondition,
        Cause::OutOfRange => Code::OutOfRange,
        Cause::NotFound => Code::NotFound,
        Cause::Unsupported => Code::Unimplemented,
        Cause::Refused => Code::PermissionDenied,
        Cause::Unauthenticated => Code::Unauthenticated,
        Cause::Exhausted => Code::ResourceExhausted,
        Cause::Unreachable | Cause::Silent | Cause::ShutDown | Cause::Device => Code::Unavailable,
        Cause::Restarted | Cause::Replaced | Cause::SessionLost => Code::Aborted,
        Cause::Deadline => Code::DeadlineExceeded,
        Cause::Cancelled => Code::Cancelled,
        Cause::Storage => Code::DataLoss,
        Cause::Protocol | Cause::Internal => Code::Internal,
    }
}

/// That a placeholder needs a value, as TensorFlow says it.
fn not_fed(node: &str, dtype: DType, shape: &Shape) -> String {
    let named = thalweg_graphdef::dtype::name(thalweg_graphdef::dtype::to_number(dtype));
    let named = named.trim_start_matches("DT_").to_lowercase();
    let shape = match shape.rank() {
        None | Some(0) => String::new(),
        Some(_) => format!(" and shape {shape}"),
    };
    format!("You must feed a value for placeholder tensor '{node}' with dtype {named}{shape}")
}

impl From<ClusterError> for Status {
    fn from(error: ClusterError) -> Status {
        let (code, limit) = (code(error.cause), error.limit);
        let status = match error.session_error() {
            Some(SessionError::MissingFeed {
                node, dtype, shape, ..
            }) => Status::invalid(not_fed(node, *dtype, shape)),
            _ => Status::new(code, &error.message),
        };
        let status = Status { limit, ..status };
        match error.failed_node() {
            Some(node) => status.of_node(node),
            None => status,
        }
    }
}

impl From<SessionError> for Status {
    fn from(error: SessionError) -> Status {
        ClusterError::from(error).into()
    }
}

impl From<ImportError> for Status {
    fn from(error: ImportError) -> Status {
        let code = match &error {
            // As TensorFlow has it: "Op type not registered".
            ImportError::Unsupported { .. } => Code::NotFound,
            _ => Code::InvalidArgument,
        };
        Status {
            limit: error.exceeds_expansion_limit().then_some(EXPANDED_BYTES),
            ..Status::new(code, error.to_string())
        }
    }
}
