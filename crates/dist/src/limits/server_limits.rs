//! Limits of a server, and their defaults for a machine.

use std::sync::Arc;
use std::time::Duration;

use thalweg_session::SessionOptions;
use thalweg_tensor::Memory;

use super::allowed_ops::AllowedOps;
use super::machine::Machine;

/// Limits of one server. Each limit has an error of its own when it is met.
///
/// ```
/// use thalweg_dist::Limits;
///
/// let limits = Limits { steps: 16, ..Limits::default() };
/// ```
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum size of a message, in bytes.
    pub message_bytes: usize,
    /// Maximum memory of one decoded message, in bytes.
    pub decoded_bytes: u64,
    /// Maximum bytes of all open calls: received bytes, decoded messages, and responses.
    pub call_bytes: u64,
    /// Maximum bytes of the graph of one session.
    pub session_bytes: u64,
    /// Maximum bytes of the graphs of all sessions.
    pub graph_bytes: u64,
    /// Maximum bytes of everything that the server holds. The engine may take seven eighths of it on each CPU for
    /// variables, queues, plans and steps, or as much as the session's options say; calls, graphs and values of other
    /// tasks have limits of their own within it.
    pub memory: u64,
    /// Maximum number of nodes of a session's graph, including those of functions.
    pub graph_nodes: usize,
    /// Maximum bytes that one message may expand to by constants with fewer elements than their shape has.
    pub expanded_bytes: usize,
    /// Maximum number of sessions at a time.
    pub sessions: usize,
    /// Maximum number of sessions at a time of one client. Clients are identified by address.
    pub client_sessions: usize,
    /// Time that a session is kept after the last connection of its client has ended.
    pub lease: Duration,
    /// Maximum number of steps at a time, of all sessions together.
    pub steps: usize,
    /// Maximum number of callables of a session.
    pub callables: usize,
    /// Maximum number of parts of steps that a task keeps for one session of another task.
    pub parts: usize,
    /// Maximum size of a tensor from another task, in bytes.
    pub value_bytes: u64,
    /// Maximum bytes of tensors from other tasks on open calls, and of tensors that are being copied from shared
    /// memory.
    pub flight_bytes: u64,
    /// Maximum number of connections at a time. At the limit, a new connection evicts an unauthenticated one, or else
    /// the one without a call for longest. The default follows from the system's limit of open files (`ulimit -n`),
    /// and is 65,536 at most.
    pub connections: usize,
    /// Time of a new connection for TLS and its first call.
    pub arrival: Duration,
    /// Time that a connection may be without a call. TensorFlow's client keeps its connection open between steps.
    pub idle: Duration,
    /// Time that steps may still run when a server drains.
    pub drain: Duration,
    /// Duration from which on a step is logged as slow.
    pub slow_step: Duration,
    /// Ops that may run.
    pub ops: AllowedOps,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::of_machine()
    }
}

/// Returns a memory account with this limit, in bytes.
pub(crate) fn memory_account(limit: u64) -> Arc<Memory> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Arc::new(Memory::new(Some(limit)))
}

/// Returns an account with this limit, in bytes, in that of a server's options.
pub(crate) fn account_within(options: &SessionOptions, limit: u64) -> Arc<Memory> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Arc::new(options.account_within(limit))
}

/// Bytes that a node of a session's graph counts, besides its constants.
pub(crate) const BYTES_PER_NODE: u64 = 1024;

impl Limits {
    /// Returns the limits for this machine: the default.
    pub fn of_machine() -> Limits {
        Limits::of(&Machine::here())
    }

    /// Returns limits without numbers: the table of settings gives each its default.
    pub(super) fn zero() -> Limits {
        Limits {
            message_bytes: 0,
            decoded_bytes: 0,
            call_bytes: 0,
            session_bytes: 0,
            graph_bytes: 0,
            memory: 0,
            graph_nodes: 0,
            expanded_bytes: 0,
            sessions: 0,
            client_sessions: 0,
            lease: Duration::ZERO,
            steps: 0,
            callables: 0,
            parts: 0,
            value_bytes: 0,
            flight_bytes: 0,
            connections: 0,
            arrival: Duration::ZERO,
            idle: Duration::ZERO,
            drain: Duration::ZERO,
            slow_step: Duration::ZERO,
            ops: AllowedOps::all(),
        }
    }
}
