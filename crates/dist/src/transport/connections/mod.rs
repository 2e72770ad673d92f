//! TCP connections of servers and clients: accepting, dialling, liveness, limits, TLS.
//!
//! * `liveness` detects dead peers: by bytes that move, not by answers to pings alone.
//! * `table` bounds the number of a server's connections, and evicts the least needed one.
//! * `listener` accepts connections, with TLS if the cluster is protected.
//! * `dialer` connects to other tasks.
//! * `responses` detects clients that do not read their responses.

pub(crate) mod dialer;
mod goaway;
pub(crate) mod listener;
pub(crate) mod liveness;
pub(crate) mod ping;
pub(crate) mod responses;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod tcp_info;

#[cfg(test)]
mod tests;
