//! Thalweg on several machines: the tasks of a cluster, the servers that run them, and TensorFlow's
//! own client at the door.
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

mod account;
mod allowed;
pub mod cluster;
mod connection;
mod contact;
mod deadline;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
mod locked;
pub mod master;
/// The messages of `proto/master.proto`, and the service that they make.
///
/// Each message has the names and numbers of TensorFlow's.
///
/// ```
/// use prost::Message;
/// use thalweg_dist::messages::{ConfigProto, CreateSessionRequest};
///
/// # fn main() -> Result<(), prost::DecodeError> {
/// let request = CreateSessionRequest {
///     config: Some(ConfigProto {
///         allow_soft_placement: true,
///         ..ConfigProto::default()
///     }),
///     ..CreateSessionRequest::default()
/// };
/// let bytes = request.encode_to_vec();
/// assert_eq!(CreateSessionRequest::decode(&bytes[..])?, request);
/// # Ok(())
/// # }
/// ```
#[allow(missing_docs, clippy::all, reason = "made by prost and tonic from a commented file")]
#[rustfmt::skip]
pub mod messages;
mod metrics;
mod net;
mod patience;
mod peers;
mod platform;
mod processes;
pub mod protection;
pub mod server;
mod server_options;
mod session;
#[rustfmt::skip]
mod sizes;
#[cfg(test)]
mod simulation;
mod status;
pub mod sync;
mod threads;
mod train_steps;
mod turns;
mod worker;

pub use allowed::AllowedOps;
pub use cluster::{ClusterSpec, SpecError};
pub use error::{Cause, ClusterError};
pub use limits::Limits;
pub use master::Master;
pub use patience::Patience;
pub use protection::Protection;
pub use server::Server;
pub use server_options::{ServerError, ServerOptions};
pub use session::{ClusterOptions, Session};
pub use status::Status;
pub use tonic::Code;
