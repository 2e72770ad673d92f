//! Connections between tasks, and the messages on them: frames, values, parts of steps.
//!
//! A call is one stream of HTTP/2, whose body is frames (`frames`): a header, which is a message of
//! `proto/worker.proto`, and the bytes of a value behind the header of one. Large values of tasks on one machine go
//! through shared memory (`shared_memory`). `peers` makes calls to the other tasks of a cluster.

pub(crate) mod buffer_pool;
pub(crate) mod connections;
mod error_chain;
pub(crate) mod error_codec;
pub(crate) mod frames;
pub(crate) mod peer_stats;
/// The messages of `proto/worker.proto`.
#[allow(missing_docs, clippy::all, reason = "made by prost from a commented file")]
#[rustfmt::skip]
pub mod messages;
pub(crate) mod network;
pub(crate) mod parts;
pub(crate) mod peers;
pub(crate) mod processes;
pub mod protection;
pub(crate) mod responses;
pub(crate) mod shared_memory;
#[rustfmt::skip]
mod sizes;
pub(crate) mod trace;
pub(crate) mod values;
pub(crate) mod version;
pub(crate) mod wire_error;
