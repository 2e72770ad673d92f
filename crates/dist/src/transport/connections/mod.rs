//! What one TCP connection is, on the side that accepts it and on the side that makes it.
//!
//! * `liveness` tells whether the other side lives: by bytes that move, not by answers alone.
//! * `table` bounds how many connections a server has, and says which one gives way.
//! * `listener` accepts connections, with TLS where the cluster is protected.
//! * `dialer` makes them.

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
