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
    /// The ops that run.
    pub ops: AllowedOps,
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

    /// Sets the ops that run; see the field.
    pub fn ops(self, ops: AllowedOps) -> Limits {
        Limits { ops, ..self }
    }
}
