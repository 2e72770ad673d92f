//! Unix socket that passes the file descriptors of shared-memory segments to co-located tasks (`SCM_RIGHTS`).
//!
//! A receiver sends the secret and gets one byte back. Then it sends requests: a byte for the kind, and a token of
//! eight bytes (little-endian). Each request gets one byte back, with a descriptor beside it if one was requested.

mod client;
mod protocol;
mod server;

pub(super) use client::DescriptorClient;
pub(super) use server::DescriptorServer;

#[cfg(test)]
mod tests;
