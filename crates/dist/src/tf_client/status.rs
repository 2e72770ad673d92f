//! Errors for TensorFlow's client: a code, which becomes the type of a Python exception, and a text.

use thalweg_device::KernelError;
use thalweg_graphdef::ImportError;
use thalweg_session::SessionError;
use thalweg_tensor::{DType, Shape};
use thiserror::Error;
use tonic::Code;

use crate::error::{Cause, ClusterError, graph_cause};
use crate::limits::settings::limit_name;
use crate::transport::error_codec::truncated;

/// Error for a client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Status {
    /// Code of the error.
    pub code: Code,
    /// Message for users.
    pub message: String,
    /// Name of the server's limit that was met.
    pub(crate) limit: Option<&'static str>,
}

/// Maximum length of a text in a trailer, in bytes: clients accept headers of 16 KiB.
const MAX_TRAILER_TEXT: usize = 3072;

impl Status {
    /// Returns a status with this code.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status {
            code,
            message: without_tags(message.into()),
            limit: None,
        }
    }

    /// Returns the status of a defect of this program.
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

    /// Adds the node, in the form that TensorFlow's client parses: it then knows the op.
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

/// The text without two brackets in sequence: TensorFlow's client takes what follows them for a node's name.
fn without_tags(text: String) -> String {
    if !text.contains("[[") {
        return text;
    }
    let mut apart = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        if char == '[' && apart.ends_with('[') {
            apart.push(' ');
        }
        apart.push(char);
    }
    apart
}

/// Returns the error of a limit: the excess, and the setting that raises the limit.
pub(crate) fn limit_exceeded(name: &'static str, what: &dyn std::fmt::Display) -> Status {
    let flag = name.replace('_', "-");
    let text = format!("{what} (the server's --{flag}, Limits::{name}, raises it)");
    Status {
        limit: Some(name),
        ..Status::new(Code::ResourceExhausted, text)
    }
}

/// Returns the code of a cause for TensorFlow's client.
fn code(cause: Cause) -> Code {
    match cause {
        Cause::Kernel | Cause::Invalid => Code::InvalidArgument,
        Cause::Uninitialized | Cause::Precondition => Code::FailedPrecondition,
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

/// Advice for a variable of another shape.
const OTHER_PROGRAM: &str = ": another program may have made it on this server; tf.Session.reset(target) removes all \
                             variables, and a resource variable's initializer replaces it";

/// Returns TensorFlow's message of a placeholder without a value.
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
            Some(SessionError::Kernel {
                source: KernelError::Variable { .. },
                ..
            }) => Status::new(code, format!("{}{OTHER_PROGRAM}", error.message)),
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
        let node = match &error {
            ImportError::Node { node, .. } => Some(node.clone()),
            ImportError::Graph(errors) => errors.first().map(|first| first.node.clone()),
            _ => None,
        };
        let code = match &error {
            // As TensorFlow does: "Op type not registered".
            ImportError::Unsupported { .. } => Code::NotFound,
            ImportError::Graph(errors) => errors
                .first()
                .map_or(Code::InvalidArgument, |first| code(graph_cause(first))),
            _ => Code::InvalidArgument,
        };
        let status = Status {
            limit: error
                .exceeds_expansion_limit()
                .then_some(const { limit_name("expanded_bytes") }),
            ..Status::new(code, error.to_string())
        };
        match node.filter(|node| !node.is_empty()) {
            Some(node) => status.of_node(&node),
            None => status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_node_stands_behind_two_brackets() {
        let status = Status::invalid("shapes [[1],[[2]]]").of_node("x");
        assert_eq!(status.message, "shapes [ [1],[ [2]]]\n\t [[{{node x}}]]");
    }
}
