//! Thalweg on several machines: the tasks of a cluster, the servers that run them, and the service that TensorFlow's
//! own client calls.
//!
//! A step of a graph, run by a server. Here the server lives in the same process; usually it is another one.
//!
//! ```
//! use thalweg_dist::{ClusterOptions, Server, ServerOptions, Session};
//! use thalweg_graph::Graph;
//! use thalweg_ops::{NewGraph, SourceOps};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Port 0 takes a free port.
//! let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
//!
//! let g = Graph::new();
//! let sum = g.constant(1.0f32) + g.constant(2.0f32);
//! let session = Session::connect(&server.target(), &g, ClusterOptions::default())?;
//! assert_eq!(session.run::<f32>(sum, [])?, 3.0);
//! # Ok(())
//! # }
//! ```

pub mod cluster;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
#[path = "../tests/fuzzing/mod.rs"]
pub mod fuzzing;
pub mod limits;
mod master;
mod metrics;
mod runtime;
pub mod server;
mod session;
#[cfg(test)]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
pub mod sync;
pub mod tf_client;
mod train_steps;
mod transport;
mod worker;

pub use cluster::{ClusterSpec, SpecError};
pub use error::{Cause, ClusterError};
pub use limits::allowed_ops::AllowedOps;
pub use limits::server_limits::Limits;
pub use limits::timeouts::Timeouts;
pub use metrics::training::TrainingGauges;
pub use server::Server;
pub use server::options::{ServerError, ServerOptions};
pub use session::{ClusterOptions, Session};
pub use tf_client::messages;
pub use tf_client::{Master, Status};
pub use tonic::Code;
pub use transport::protection;
pub use transport::protection::Protection;
