//! Streams: connections over TCP, which TLS may protect.

mod socket;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use socket::{Ready, Stream, wait};
