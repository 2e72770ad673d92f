//! Error of a cluster: task, node, cause, and if another error is the reason.

use std::fmt;
use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_graph::{GraphError, InferError, Origin, Reason};
use thalweg_session::SessionError;
use thalweg_tensor::TensorError;

use crate::cluster::spec::{TaskName, task_label};

/// Name of the limit of the engine's memory.
pub(crate) const MEMORY: &str = "memory";

/// An error of a session over a cluster, or of one of its tasks. It is sent field by field, so the caller of a step
/// has all fields that the failing task had.
///
/// Its `Display` is one or two lines for users; programs use the fields.
///
/// ```
/// use thalweg_dist::{Cause, ClusterOptions, Server, ServerOptions, Session};
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
/// let g = Graph::new();
/// let w = g.variable("w", 0.0f32);
/// let session = Session::on(&server, &g, ClusterOptions::default())?;
/// // The initializers did not run.
/// let error = session.step(w, []).unwrap_err();
/// assert_eq!(error.cause, Cause::Uninitialized);
/// assert!(error.message.contains("uninitialized value w"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ClusterError {
    /// Task on which it happened, or which is not reached.
    pub task: Option<TaskName>,
    /// Node in which it happened.
    pub node: Option<String>,
    /// Op of the node.
    pub op: Option<String>,
    /// Source location at which the node was made.
    pub origin: Option<Origin>,
    /// Cause of the error.
    pub cause: Cause,
    /// `true` if a part of a step has failed only because another part has. The other fields are then those of the
    /// root cause, as far as they are known.
    pub derived: bool,
    /// Message for users.
    pub message: String,
    session: Option<Arc<SessionError>>,
    /// Limit of this task that was met, until it is counted.
    pub(crate) limit: Option<&'static str>,
}

/// The message: a program that returns the error from `main` prints it, and `unwrap` does.
impl fmt::Debug for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Cause of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A kernel got invalid values, or computed values that are not finite.
    Kernel,
    /// A variable has no value, or a table no entries: run the initializers first.
    Uninitialized,
    /// State does not allow the step: a table is filled with other entries.
    Precondition,
    /// An input has ended: a queue is closed and empty.
    OutOfRange,
    /// The request or the graph is invalid.
    Invalid,
    /// A name is unknown.
    NotFound,
    /// The request is not supported.
    Unsupported,
    /// The task does not permit this: its operator has not allowed it.
    Refused,
    /// The caller has no valid token.
    Unauthenticated,
    /// Out of memory, or of another limited resource of a task.
    Exhausted,
    /// The task is not reached, or the connection to it has failed.
    Unreachable,
    /// The task is connected and does not answer in time.
    Silent,
    /// The task is another process than before: the values of its variables are lost.
    Restarted,
    /// A newer process of the task has replaced this one.
    Replaced,
    /// The task no longer has the session, or has ended the step with it.
    SessionLost,
    /// The task, or the server of the session, is shut down.
    ShutDown,
    /// A device has failed.
    Device,
    /// The step or the call has exceeded its time limit.
    Deadline,
    /// The step was cancelled.
    Cancelled,
    /// A task has sent an unreadable or an unexpected message.
    Protocol,
    /// A file of a task cannot be read or written, or is damaged.
    Storage,
    /// A defect of this program.
    Internal,
}

impl Cause {
    /// Returns its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cause::Kernel => "kernel",
            Cause::Uninitialized => "uninitialized",
            Cause::Precondition => "precondition",
            Cause::OutOfRange => "out_of_range",
            Cause::Invalid => "invalid",
            Cause::NotFound => "not_found",
            Cause::Unsupported => "unsupported",
            Cause::Refused => "refused",
            Cause::Unauthenticated => "unauthenticated",
            Cause::Exhausted => "exhausted",
            Cause::Unreachable => "unreachable",
            Cause::Silent => "silent",
            Cause::Restarted => "restarted",
            Cause::Replaced => "replaced",
            Cause::SessionLost => "session_lost",
            Cause::ShutDown => "shut_down",
            Cause::Device => "device",
            Cause::Deadline => "deadline",
            Cause::Cancelled => "cancelled",
            Cause::Protocol => "protocol",
            Cause::Storage => "storage",
            Cause::Internal => "internal",
        }
    }

    /// `true` if a task was lost that may come back: the step can then be run again.
    pub fn is_loss(self) -> bool {
        matches!(
            self,
            Cause::Unreachable
                | Cause::Silent
                | Cause::Restarted
                | Cause::Replaced
                | Cause::SessionLost
                | Cause::ShutDown
        )
    }
}

impl ClusterError {
    /// Returns an error with this cause and message only.
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> ClusterError {
        ClusterError {
            task: None,
            node: None,
            op: None,
            origin: None,
            cause,
            derived: false,
            message: message.into(),
            session: None,
            limit: None,
        }
    }

    /// Returns the error of a limit of this task.
    pub(crate) fn limit_exceeded(limit: &'static str, message: impl Into<String>) -> ClusterError {
        ClusterError {
            limit: Some(limit),
            ..ClusterError::new(Cause::Exhausted, message)
        }
    }

    /// Returns the error of a defect of this program.
    pub(crate) fn defect(error: &dyn fmt::Display) -> ClusterError {
        let text = format!("a defect: {error}. Please report it");
        ClusterError::new(Cause::Internal, text)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> ClusterError {
        ClusterError::new(Cause::Invalid, message)
    }

    /// Sets the task, unless it is set already.
    pub(crate) fn at(mut self, task: &TaskName) -> ClusterError {
        self.task.get_or_insert_with(|| task.clone());
        self
    }

    /// Sets the node.
    pub(crate) fn in_node(mut self, node: &str, op: &str) -> ClusterError {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        (self.node, self.op) = (known(node), known(op));
        self
    }

    /// Sets the source location of the node.
    fn made_at(mut self, origin: &Origin) -> ClusterError {
        self.origin = Some(origin.clone());
        self
    }

    /// Returns the derived error, of a part that fails because of this one.
    pub(crate) fn derived(self) -> ClusterError {
        ClusterError {
            derived: true,
            limit: None,
            ..self
        }
    }

    /// Returns the more specific of two errors of one step: one that is more than the end of the step.
    pub(crate) fn or_more_specific(self, other: ClusterError) -> ClusterError {
        let ended = |e: &ClusterError| matches!(e.cause, Cause::SessionLost | Cause::Cancelled);
        match ended(&self) && !ended(&other) {
            true => other,
            false => self,
        }
    }

    /// Returns the failed node of the step or of its graph. A node that a task has refused to accept is none.
    pub(crate) fn failed_node(&self) -> Option<&str> {
        let refused = matches!(self.cause, Cause::Refused | Cause::Protocol);
        self.node.as_deref().filter(|_| !refused)
    }

    /// Returns the error of the session, or of the part of a step, if it is of this process: it has all details.
    pub fn session_error(&self) -> Option<&SessionError> {
        self.session.as_deref()
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An error without a node names the task in its message.
        if let (Some((job, index)), Some(_)) = (&self.task, self.failed_node()) {
            write!(f, "{}: ", task_label(job, *index))?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ClusterError {}

fn kernel_cause(error: &KernelError) -> Cause {
    match error {
        KernelError::Uninitialized { .. } | KernelError::UninitializedTable { .. } => {
            Cause::Uninitialized
        }
        KernelError::FailedPrecondition(_) => Cause::Precondition,
        KernelError::OutOfRange(_) => Cause::OutOfRange,
        KernelError::Cancelled(_) => Cause::Cancelled,
        KernelError::NotFound(_) => Cause::NotFound,
        KernelError::Refused(_) => Cause::Refused,
        KernelError::Storage(_) => Cause::Storage,
        KernelError::Function { source, .. } => kernel_cause(source),
        KernelError::Memory { .. } | KernelError::Tensor(TensorError::TooLarge { .. }) => {
            Cause::Exhausted
        }
        KernelError::Argument(_) => Cause::Internal,
        _ => Cause::Kernel,
    }
}

/// Returns the cause of a node that the graph refuses.
pub(crate) fn graph_cause(error: &GraphError) -> Cause {
    match error.reason {
        Reason::Infer(InferError::Unsupported(_)) => Cause::Unsupported,
        _ => Cause::Invalid,
    }
}

impl From<SessionError> for ClusterError {
    fn from(error: SessionError) -> ClusterError {
        use SessionError as E;
        let of = |cause| ClusterError::new(cause, error.to_string());
        let made = match &error {
            E::MissingFeed { node, origin, .. } => {
                of(Cause::Invalid).in_node(node, "").made_at(origin)
            }
            E::Kernel {
                node,
                op,
                origin,
                source,
            } => of(kernel_cause(source)).in_node(node, op).made_at(origin),
            E::Graph { first, .. } => of(graph_cause(first))
                .in_node(&first.node, &first.op)
                .made_at(&first.origin),
            E::Cycle { node } => of(Cause::Invalid).in_node(node, ""),
            E::NotFinite {
                node, op, origin, ..
            } => of(Cause::Kernel).in_node(node, op).made_at(origin),
            E::UnknownOp { node, op, origin }
            | E::NoKernel {
                node, op, origin, ..
            } => of(Cause::Invalid).in_node(node, op).made_at(origin),
            E::Panicked {
                node, op, origin, ..
            } => of(Cause::Internal).in_node(node, op).made_at(origin),
            E::Memory {
                node, op, origin, ..
            } => of(Cause::Exhausted).in_node(node, op).made_at(origin),
            E::Feed { origin, .. } => of(Cause::Invalid).made_at(origin),
            E::Timeout { .. } => of(Cause::Deadline),
            E::Cancelled { .. } => of(Cause::Cancelled),
            E::PlanMemory { .. } => of(Cause::Exhausted),
            E::Device { .. } => of(Cause::Device),
            _ => of(Cause::Invalid),
        };
        let of_memory = matches!(error, E::Memory { limit: Some(_), .. });
        ClusterError {
            session: Some(Arc::new(error)),
            limit: of_memory.then_some(MEMORY),
            ..made
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_tensor::{DType, Dims};

    #[test]
    fn too_little_memory_in_a_function_is_exhaustion() {
        let scratch = KernelError::Memory { bytes: 5 };
        let value = KernelError::from(TensorError::TooLarge {
            dtype: DType::F32,
            dims: Dims::from_slice(&[5]),
        });
        for source in [scratch, value] {
            assert_eq!(kernel_cause(&source), Cause::Exhausted);
        }
    }

    #[test]
    fn the_root_cause_wins_over_a_derived_error() {
        let why = ClusterError::new(Cause::Kernel, "why").derived();
        for cause in [Cause::SessionLost, Cause::Cancelled] {
            let ended = ClusterError::new(cause, "the step was ended").derived();
            assert_eq!(ended.clone().or_more_specific(why.clone()), why);
            assert_eq!(why.clone().or_more_specific(ended.clone()), why);
            // Of two equally specific ones, the first.
            let later = ClusterError::new(cause, "later").derived();
            assert_eq!(ended.clone().or_more_specific(later), ended);
        }
    }
}
