//! How much a server does for its clients before it says no.
//!
//! ```
//! use thalweg_dist::{AllowedOps, ClusterOptions, Limits, Server, ServerOptions, Session};
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, SourceOps};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limits = Limits::new().graph_nodes(10_000).ops(AllowedOps::only(["AddV2", "Mul"])?);
//! let server = Server::start(ServerOptions::listening("127.0.0.1:0").limits(limits))?;
//!
//! let g = Graph::new();
//! let x = g.constant(2.0f32);
//! let session = Session::connect(&server.target(), &g, ClusterOptions::default())?;
//! let refused = session.step(x.exp(), []).unwrap_err();
//! assert!(refused.message.contains("does not run op 'Exp'"));
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use crate::allowed::AllowedOps;

/// How much one server does at most. Each bound is an error of its own where it is met.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The largest message that is taken, in bytes.
    pub message_bytes: usize,
    /// The most nodes of a session's graph, those of functions counted.
    pub graph_nodes: usize,
    /// How many bytes may be filled in for constants of which a graph says fewer elements than they
    /// have, for each message.
    pub expanded_bytes: usize,
    /// The most sessions at a time.
    pub sessions: usize,
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
    /// The ops that run.
    pub ops: AllowedOps,
}

/// The most connections where the system lets a process have any number of files open.
const MOST_CONNECTIONS: usize = 65_536;

/// How many connections the bound of open files leaves: a quarter of it, and at least 64, are for all else.
fn connections() -> usize {
    #[cfg(target_os = "linux")]
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(target_os = "linux"))]
    let files = Some(256);
    let files = files.and_then(|f| usize::try_from(f).ok());
    let files = files.unwrap_or(usize::MAX);
    let left = files.saturating_sub((files / 4).max(64));
    left.clamp(1, MOST_CONNECTIONS)
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message_bytes: i32::MAX as usize,
            graph_nodes: 4 << 20,
            expanded_bytes: 256 << 20,
            sessions: 1024,
            steps: 1024,
            callables: 1 << 16,
            parts: 4096,
            value_bytes: 64 << 30,
            flight_bytes: 64 << 30,
            connections: connections(),
            arrival: Duration::from_secs(10),
            idle: Duration::from_secs(2 * 3600),
            ops: AllowedOps::all(),
        }
    }
}

impl Limits {
    /// The defaults.
    pub fn new() -> Limits {
        Limits::default()
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
