//! What goes wrong on a cluster, as one type: where, why, and whether something else is the reason.

use std::fmt;
use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_graph::Origin;
use thalweg_session::SessionError;

use crate::cluster::spec::{TaskName, task_label};
use crate::limit_names::MEMORY;

/// An error of a session over a cluster, or of one of its tasks. It crosses the network field by field:
/// what is known of it at the task where it happened is known to whoever asked for the step.
///
/// Its `Display` is one line or two for people; nothing has to be read out of it.
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
/// assert!(error.message.contains("'w'"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ClusterError {
    /// The task that it happened at, or that is not reached.
    pub task: Option<TaskName>,
    /// The node that it happened in.
    pub node: Option<String>,
    /// The node's op.
    pub op: Option<String>,
    /// Where the node was made.
    pub origin: Option<Origin>,
    /// Why.
    pub cause: Cause,
    /// Whether a part of a step has failed only because another part has. The other fields are then
    /// those of the error that it follows from, as far as they are known.
    pub derived: bool,
    /// What people read.
    pub message: String,
    session: Option<Arc<SessionError>>,
    /// The limit of this task that was met, until it is counted.
    pub(crate) limit: Option<&'static str>,
}

/// The sentence: it is what a program prints that returns the error from `main`, and what `unwrap` says.
impl fmt::Debug for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A kernel cannot take the values that it got, or gave what is not finite.
    Kernel,
    /// A variable that nothing was assigned to: run the initializers first.
    Uninitialized,
    /// Something has come to its end: a queue that is closed and empty.
    OutOfRange,
    /// What was asked for, or the graph, is wrong.
    Invalid,
    /// Something is named that is not there.
    NotFound,
    /// Something is asked for that tasks do not do.
    Unsupported,
    /// The task does not do this for its callers: its operator has not allowed it.
    Refused,
    /// The task does not know the caller: it shows no token, or another one.
    Unauthenticated,
    /// Out of memory, or of something else that a task has a bounded amount of.
    Exhausted,
    /// The task is not reached, or the connection to it has failed.
    Unreachable,
    /// The task is connected to and does not answer in the time that it has.
    Silent,
    /// The task is another process than before: what its variables held is lost.
    Restarted,
    /// The process is not the task's any more: a newer one has taken its place.
    Replaced,
    /// The task does not have the session any more, or has ended the step with it.
    SessionLost,
    /// The task, or the server of the session, is shut down.
    ShutDown,
    /// A device has failed.
    Device,
    /// The step, or the call, was not done in its time.
    Deadline,
    /// The step was cancelled.
    Cancelled,
    /// A task has sent what cannot be read, or what was not asked for.
    Protocol,
    /// A file of a task cannot be read or written, or is damaged.
    Storage,
    /// A defect of this program.
    Internal,
}

impl Cause {
    /// As numbers of a server name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cause::Kernel => "kernel",
            Cause::Uninitialized => "uninitialized",
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

    /// Whether a task was lost that may be back later: the step can be run again then.
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
    /// An error that nothing more is known of.
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

    /// That a limit of this task was met.
    pub(crate) fn limit_exceeded(limit: &'static str, message: impl Into<String>) -> ClusterError {
        ClusterError {
            limit: Some(limit),
            ..ClusterError::new(Cause::Exhausted, message)
        }
    }

    /// What should never be.
    pub(crate) fn defect(error: &dyn fmt::Display) -> ClusterError {
        let text = format!("a defect: {error}. Please report it");
        ClusterError::new(Cause::Internal, text)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> ClusterError {
        ClusterError::new(Cause::Invalid, message)
    }

    /// The same, at this task unless it is known to be another's.
    pub(crate) fn at(mut self, task: &TaskName) -> ClusterError {
        self.task.get_or_insert_with(|| task.clone());
        self
    }

    /// The same, in this node.
    pub(crate) fn in_node(mut self, node: &str, op: &str) -> ClusterError {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        (self.node, self.op) = (known(node), known(op));
        self
    }

    /// The same, of a node that was made there.
    fn made_at(mut self, origin: &Origin) -> ClusterError {
        self.origin = Some(origin.clone());
        self
    }

    /// What fails because of this.
    pub(crate) fn derived(self) -> ClusterError {
        ClusterError {
            derived: true,
            limit: None,
            ..self
        }
    }

    /// This, or another error of the same step where that tells more: not only that the step was ended.
    pub(crate) fn or_more_specific(self, other: ClusterError) -> ClusterError {
        let ended = |e: &ClusterError| matches!(e.cause, Cause::SessionLost | Cause::Cancelled);
        match ended(&self) && !ended(&other) {
            true => other,
            false => self,
        }
    }

    /// The node of the step or of its graph that has failed, if one has; a node that a task has refused
    /// to take is none.
    pub(crate) fn failed_node(&self) -> Option<&str> {
        let refused = matches!(self.cause, Cause::Refused | Cause::Protocol);
        self.node.as_deref().filter(|_| !refused)
    }

    /// The error of the session, or of the part of a step, where it is of this process: it has all
    /// details.
    pub fn session_error(&self) -> Option<&SessionError> {
        self.session.as_deref()
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is not of a node says by itself where it is.
        if let (Some((job, index)), Some(_)) = (&self.task, self.failed_node()) {
            write!(f, "{}: ", task_label(job, *index))?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ClusterError {}

fn kernel_cause(error: &KernelError) -> Cause {
    match error {
        KernelError::Uninitialized { .. } => Cause::Uninitialized,
        KernelError::OutOfRange(_) => Cause::OutOfRange,
        KernelError::Cancelled(_) => Cause::Cancelled,
        KernelError::NotFound(_) => Cause::NotFound,
        KernelError::Refused(_) => Cause::Refused,
        KernelError::Storage(_) => Cause::Storage,
        KernelError::Function { source, .. } => kernel_cause(source),
        KernelError::Argument(_) => Cause::Internal,
        _ => Cause::Kernel,
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
            E::Graph { first, .. } => of(Cause::Invalid)
                .in_node(&first.node, &first.op)
                .made_at(&first.origin),
            E::Cycle { node } => of(Cause::Invalid).in_node(node, ""),
            E::NotFinite {
                node, op, origin, ..
            } => of(Cause::Kernel).in_node(node, op).made_at(origin),
            E::NoKernel {
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

    #[test]
    fn the_root_cause_wins_over_a_derived_error() {
        let why = ClusterError::new(Cause::Kernel, "why").derived();
        for cause in [Cause::SessionLost, Cause::Cancelled] {
            let ended = ClusterError::new(cause, "the step was ended").derived();
            assert_eq!(ended.clone().or_more_specific(why.clone()), why);
            assert_eq!(why.clone().or_more_specific(ended.clone()), why);
            // Of two that tell as much, the first.
            let later = ClusterError::new(cause, "later").derived();
            assert_eq!(ended.clone().or_more_specific(later), ended);
        }
    }
}
