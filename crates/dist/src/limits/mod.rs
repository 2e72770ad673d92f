//! Limits of a server: memory, sessions, steps, connections, times, ops.
//!
//! ```
//! use thalweg_dist::{AllowedOps, ClusterOptions, Limits, Server, ServerOptions, Session};
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, SourceOps};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limits = Limits {
//!     graph_nodes: 10_000,
//!     ops: AllowedOps::only(["AddV2", "Mul"])?,
//!     ..Limits::default()
//! };
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

pub(crate) mod allowed_ops;
pub(crate) mod machine;
pub(crate) mod server_limits;
pub(crate) mod settings;
pub(crate) mod timeouts;
pub(crate) mod unit;

pub use machine::Machine;
pub use settings::{SETTINGS, Setting, SettingError};
pub use unit::{NoNumber, Unit};
