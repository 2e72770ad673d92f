//! Limits of a server, and their defaults for a machine.

use std::time::Duration;

use super::allowed_ops::AllowedOps;
use super::machine::Machine;

/// Limits of one server. Each limit has an error of its own when it is met.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    /// Maximum bytes of the engine's memory on the CPU: variables, queues and steps. A CPU with a limit in the
    /// session's options keeps that limit.
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

/// Maximum number of connections if the system does not limit open files.
const MAX_CONNECTIONS: u64 = 65_536;

/// Returns the number of connections for a limit of open files. A quarter of the files, and at least 64, are reserved
/// for other uses.
fn connections(descriptors: u64) -> usize {
    let left = descriptors.saturating_sub((descriptors / 4).max(64));
    left.clamp(1, MAX_CONNECTIONS) as usize
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::of_machine()
    }
}

/// Maximum size of a protobuf message.
const MAX_MESSAGE: usize = i32::MAX as usize;
/// Bytes that a node of a session's graph counts, besides its constants.
pub(crate) const BYTES_PER_NODE: u64 = 1024;

impl Limits {
    /// Returns the defaults.
    pub fn new() -> Limits {
        Limits::default()
    }

    /// Returns the limits for this machine: the default.
    pub fn of_machine() -> Limits {
        Limits::of(&Machine::here())
    }

    /// Returns the limits for the resources of a machine.
    ///
    /// The engine may take half of the memory, and the calls that go on a quarter. One message, decoded, may take
    /// half of what calls may. The graphs of all sessions may take an eighth, and that of one session half of
    /// it. Values that come in from other tasks may take a quarter.
    ///
    /// ```
    /// use thalweg_dist::Limits;
    /// use thalweg_dist::limits::Machine;
    ///
    /// let machine = Machine { memory: 16 << 30, ..Machine::here() };
    /// let limits = Limits::of(&machine);
    /// assert_eq!(limits.memory, 8 << 30);
    /// assert_eq!(limits.call_bytes, 4 << 30);
    /// assert_eq!(limits.decoded_bytes, 2 << 30);
    /// ```
    pub fn of(machine: &Machine) -> Limits {
        // If the system reports none, more bytes than any machine has.
        let memory = machine.memory.min(1 << 50);
        let threads = usize::try_from(machine.threads).unwrap_or(usize::MAX);
        let session_bytes = memory / 16;
        let nodes = usize::try_from(session_bytes / BYTES_PER_NODE).unwrap_or(usize::MAX);
        Limits {
            message_bytes: usize::try_from(memory / 8).map_or(MAX_MESSAGE, |b| b.min(MAX_MESSAGE)),
            decoded_bytes: memory / 8,
            call_bytes: memory / 4,
            session_bytes,
            graph_bytes: memory / 8,
            memory: memory / 2,
            graph_nodes: nodes.min(4 << 20),
            expanded_bytes: usize::try_from(memory / 32).map_or(256 << 20, |b| b.min(256 << 20)),
            sessions: 1024,
            client_sessions: 256,
            lease: Duration::from_secs(4 * 3600),
            steps: (threads / 2).clamp(1, 1024),
            callables: 1 << 16,
            parts: 4096,
            value_bytes: memory / 4,
            flight_bytes: memory / 4,
            connections: connections(machine.descriptors),
            arrival: Duration::from_secs(10),
            idle: Duration::from_secs(2 * 3600),
            drain: Duration::from_secs(30),
            slow_step: Duration::from_secs(60),
            ops: AllowedOps::all(),
        }
    }

    /// Sets the maximum size of a message; see the field.
    pub fn message_bytes(self, message_bytes: usize) -> Limits {
        Limits {
            message_bytes,
            ..self
        }
    }

    /// Sets the maximum number of nodes of a session's graph; see the field.
    pub fn graph_nodes(self, graph_nodes: usize) -> Limits {
        Limits {
            graph_nodes,
            ..self
        }
    }

    /// Sets the maximum bytes of expanded constants; see the field.
    pub fn expanded_bytes(self, expanded_bytes: usize) -> Limits {
        Limits {
            expanded_bytes,
            ..self
        }
    }

    /// Sets the maximum number of sessions; see the field.
    pub fn sessions(self, sessions: usize) -> Limits {
        Limits { sessions, ..self }
    }

    /// Sets the maximum number of steps; see the field.
    pub fn steps(self, steps: usize) -> Limits {
        Limits { steps, ..self }
    }

    /// Sets the maximum number of callables of a session; see the field.
    pub fn callables(self, callables: usize) -> Limits {
        Limits { callables, ..self }
    }

    /// Sets the maximum number of parts of a session; see the field.
    pub fn parts(self, parts: usize) -> Limits {
        Limits { parts, ..self }
    }

    /// Sets the maximum size of a tensor from another task; see the field.
    pub fn value_bytes(self, value_bytes: u64) -> Limits {
        Limits {
            value_bytes,
            ..self
        }
    }

    /// Sets the maximum bytes of tensors on open calls; see the field.
    pub fn flight_bytes(self, flight_bytes: u64) -> Limits {
        Limits {
            flight_bytes,
            ..self
        }
    }

    /// Sets the maximum number of connections; see the field.
    pub fn connections(self, connections: usize) -> Limits {
        Limits {
            connections,
            ..self
        }
    }

    /// Sets the time of a new connection for its first call; see the field.
    pub fn arrival(self, arrival: Duration) -> Limits {
        Limits { arrival, ..self }
    }

    /// Sets the time that a connection may be without a call; see the field.
    pub fn idle(self, idle: Duration) -> Limits {
        Limits { idle, ..self }
    }

    /// Sets the ops that may run; see the field.
    pub fn ops(self, ops: AllowedOps) -> Limits {
        Limits { ops, ..self }
    }
}
