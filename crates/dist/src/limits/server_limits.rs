//! The limits of a server.

use std::time::Duration;

use super::allowed_ops::AllowedOps;
use super::machine::Machine;

/// How much one server does at most. Each bound is an error of its own where it is met.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The largest message that is taken, in bytes.
    pub message_bytes: usize,
    /// The most memory that one message takes once it is decoded, in bytes.
    pub decoded_bytes: u64,
    /// The most bytes that all calls which go on hold: what came of their messages, the decoded messages,
    /// and the answers.
    pub call_bytes: u64,
    /// The most bytes that the graph of one session takes.
    pub session_bytes: u64,
    /// The most bytes that the graphs of all sessions take.
    pub graph_bytes: u64,
    /// The most bytes of the engine's memory on the CPU: variables, queues and steps. Options of a session that
    /// say a limit of their own for a CPU keep it.
    pub memory: u64,
    /// The most nodes of a session's graph, those of functions counted.
    pub graph_nodes: usize,
    /// How many bytes may be filled in for constants of which a graph says fewer elements than they
    /// have, for each message.
    pub expanded_bytes: usize,
    /// The most sessions at a time.
    pub sessions: usize,
    /// The most sessions at a time of one client, which is told by its address.
    pub client_sessions: usize,
    /// How long a session is kept after the last connection of its client has ended.
    pub lease: Duration,
    /// The most steps at a time, those of all sessions together.
    pub steps: usize,
    /// The most callables of a session.
    pub callables: usize,
    /// The most parts of steps that a task keeps for one session of another's.
    pub parts: usize,
    /// The largest tensor that is taken from another task, in bytes.
    pub value_bytes: u64,
    /// The most bytes of tensors that have come in from other tasks on calls which still go on; of those
    /// that are copied from shared memory, while they are.
    pub flight_bytes: u64,
    /// The most connections at a time. When there are as many, a new one takes the place of one that no call with the
    /// cluster's token has come on, or else of the one that had no call for longest. By default, what the system's
    /// bound of open files leaves (`ulimit -n`), and at most 65,536.
    pub connections: usize,
    /// How long a new connection may take for TLS and its first call.
    pub arrival: Duration,
    /// How long a connection may be without a call. TensorFlow's client keeps one open between steps.
    pub idle: Duration,
    /// How long steps may still run when a server drains.
    pub drain: Duration,
    /// From which time on a step is told of in the log.
    pub slow_step: Duration,
    /// The ops that run.
    pub ops: AllowedOps,
}

/// The most connections where the system lets a process have any number of files open.
const MAX_CONNECTIONS: u64 = 65_536;

/// How many connections the bound of open files leaves: a quarter of it, and at least 64, are for all else.
fn connections(descriptors: u64) -> usize {
    let left = descriptors.saturating_sub((descriptors / 4).max(64));
    left.clamp(1, MAX_CONNECTIONS) as usize
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::of_machine()
    }
}

/// The largest message of protobuf.
const MAX_MESSAGE: usize = i32::MAX as usize;
/// What a node of a session's graph is counted as beside its constants, in bytes.
pub(crate) const BYTES_PER_NODE: u64 = 1024;

impl Limits {
    /// The defaults.
    pub fn new() -> Limits {
        Limits::default()
    }

    /// Limits that follow from what this machine lets the process have: the default.
    pub fn of_machine() -> Limits {
        Limits::of(&Machine::here())
    }

    /// Limits that follow from what a machine lets a process have.
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
        // Where the system tells none, as many bytes as no machine has.
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

    /// Sets the largest message; see the field.
    pub fn message_bytes(self, message_bytes: usize) -> Limits {
        Limits {
            message_bytes,
            ..self
        }
    }

    /// Sets the most nodes of a session's graph; see the field.
    pub fn graph_nodes(self, graph_nodes: usize) -> Limits {
        Limits {
            graph_nodes,
            ..self
        }
    }

    /// Sets the bytes that may be filled in for constants; see the field.
    pub fn expanded_bytes(self, expanded_bytes: usize) -> Limits {
        Limits {
            expanded_bytes,
            ..self
        }
    }

    /// Sets the most sessions at a time; see the field.
    pub fn sessions(self, sessions: usize) -> Limits {
        Limits { sessions, ..self }
    }

    /// Sets the most steps at a time; see the field.
    pub fn steps(self, steps: usize) -> Limits {
        Limits { steps, ..self }
    }

    /// Sets the most callables of a session; see the field.
    pub fn callables(self, callables: usize) -> Limits {
        Limits { callables, ..self }
    }

    /// Sets the most parts of steps that a task keeps; see the field.
    pub fn parts(self, parts: usize) -> Limits {
        Limits { parts, ..self }
    }

    /// Sets the largest tensor that is taken from another task; see the field.
    pub fn value_bytes(self, value_bytes: u64) -> Limits {
        Limits {
            value_bytes,
            ..self
        }
    }

    /// Sets the most bytes of tensors on calls that still go on; see the field.
    pub fn flight_bytes(self, flight_bytes: u64) -> Limits {
        Limits {
            flight_bytes,
            ..self
        }
    }

    /// Sets the most connections at a time; see the field.
    pub fn connections(self, connections: usize) -> Limits {
        Limits {
            connections,
            ..self
        }
    }

    /// Sets how long a new connection may take for its first call; see the field.
    pub fn arrival(self, arrival: Duration) -> Limits {
        Limits { arrival, ..self }
    }

    /// Sets how long a connection may be without a call; see the field.
    pub fn idle(self, idle: Duration) -> Limits {
        Limits { idle, ..self }
    }

    /// Sets the ops that run; see the field.
    pub fn ops(self, ops: AllowedOps) -> Limits {
        Limits { ops, ..self }
    }
}
