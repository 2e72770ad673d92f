//! Errors as a client of TensorFlow gets them: a code, which becomes the type of a Python exception,
//! and a text.

use thalweg_device::KernelError;
use thalweg_graphdef::ImportError;
use thalweg_session::SessionError;
use thiserror::Error;
use tonic::Code;

/// What went wrong, for a client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Status {
    /// What kind of error it is.
    pub code: Code,
    /// What people read.
    pub message: String,
}

/// The longest text that goes into a trailer: clients take headers of 16 KiB.
const MOST: usize = 3072;

impl Status {
    /// A status of this code.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status {
            code,
            message: message.into(),
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
        let mut message = status.message;
        if message.len() > MOST {
            let end = (0..=MOST).rev().find(|&i| message.is_char_boundary(i));
            message.truncate(end.unwrap_or(0));
            message += " ... [truncated]";
        }
        tonic::Status::new(status.code, message)
    }
}

fn of_kernel(error: &KernelError) -> Code {
    match error {
        KernelError::Uninitialized { .. } => Code::FailedPrecondition,
        KernelError::OutOfRange(_) => Code::OutOfRange,
        KernelError::Cancelled(_) => Code::Cancelled,
        KernelError::Function { source, .. } => of_kernel(source),
        KernelError::Argument(_) => Code::Internal,
        _ => Code::InvalidArgument,
    }
}

impl From<&SessionError> for Status {
    fn from(error: &SessionError) -> Status {
        let text = error.to_string();
        match error {
            SessionError::MissingFeed {
                node, dtype, shape, ..
            } => {
                let named =
                    thalweg_graphdef::dtype::name(thalweg_graphdef::dtype::to_number(*dtype));
                let named = named.trim_start_matches("DT_").to_lowercase();
                let shape = match shape.rank() {
                    None | Some(0) => String::new(),
                    Some(_) => format!(" and shape {shape}"),
                };
                let text = format!(
                    "You must feed a value for placeholder tensor '{node}' with dtype {named}{shape}"
                );
                Status::invalid(text).of_node(node)
            }
            SessionError::Kernel { node, source, .. } => {
                Status::new(of_kernel(source), text).of_node(node)
            }
            SessionError::Graph { first, .. } => Status::invalid(text).of_node(&first.node),
            SessionError::Cycle { node } => Status::invalid(text).of_node(node),
            SessionError::NotFinite { node, .. } | SessionError::NoKernel { node, .. } => {
                Status::invalid(text).of_node(node)
            }
            SessionError::Panicked { node, .. } => Status::new(Code::Internal, text).of_node(node),
            SessionError::Memory { node, .. } => {
                Status::new(Code::ResourceExhausted, text).of_node(node)
            }
            SessionError::Timeout { .. } => Status::new(Code::DeadlineExceeded, text),
            SessionError::Cancelled { .. } => Status::new(Code::Cancelled, text),
            SessionError::Device { .. } => Status::new(Code::Unavailable, text),
            _ => Status::invalid(text),
        }
    }
}

impl From<ImportError> for Status {
    fn from(error: ImportError) -> Status {
        let code = match &error {
            // As TensorFlow has it: "Op type not registered".
            ImportError::Unsupported { .. } => Code::NotFound,
            _ => Code::InvalidArgument,
        };
        Status::new(code, error.to_string())
    }
}
