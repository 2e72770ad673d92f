//! TensorFlow's `MasterService` for clients: sessions, steps, partial runs, callables.
//!
//! A [`Server`](crate::Server) has a [`Master`], which answers TensorFlow's client. The client makes calls like this
//! one:
//!
//! ```
//! use thalweg_dist::messages::CreateSessionRequest;
//! use thalweg_dist::messages::master_service_client::MasterServiceClient;
//! use thalweg_dist::{Server, ServerOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
//! let address = format!("http://{}", server.address());
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let created = runtime.block_on(async {
//!     let channel = tonic::transport::Endpoint::from_shared(address)?.connect().await?;
//!     let mut client = MasterServiceClient::new(channel);
//!     let created = client.create_session(CreateSessionRequest::default()).await?;
//!     Ok::<_, Box<dyn std::error::Error>>(created.into_inner())
//! })?;
//! assert!(!created.session_handle.is_empty());
//! # Ok(())
//! # }
//! ```

mod call;
mod calls;
pub(crate) mod grpc_service;
mod leases;
pub(crate) mod master;
/// Messages of `proto/master.proto`, and a client of their service.
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
mod node_names;
mod partial_run;
mod refusal;
mod request;
mod runner;
mod session;
#[rustfmt::skip]
mod sizes;
pub(crate) mod status;
mod step_nodes;
mod step_slot;
mod task_alias;

pub use master::Master;
pub use request::{Request, Response};
pub use session::MasterSession;
pub use status::Status;
