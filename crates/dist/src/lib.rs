//! Thalweg on several machines: the tasks of a cluster, the servers that run them, and TensorFlow's
//! own client at the door.

mod allowed;
pub mod cluster;
mod deadline;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
pub mod master;
/// The messages of `proto/master.proto`, and the service that they make.
#[allow(missing_docs, clippy::all, reason = "made by prost and tonic from a commented file")]
#[rustfmt::skip]
pub mod messages;
mod net;
mod peers;
mod platform;
pub mod protection;
pub mod server;
mod session;
#[cfg(test)]
mod simulation;
mod status;
pub mod sync;
mod worker;

pub use allowed::AllowedOps;
pub use cluster::{ClusterSpec, SpecError};
pub use error::{Cause, ClusterError};
pub use limits::Limits;
pub use master::Master;
pub use peers::Patience;
pub use protection::Protection;
pub use server::{Server, ServerError, ServerOptions};
pub use session::{ClusterOptions, Session};
pub use status::Status;
pub use tonic::Code;
