//! The Unix socket that descriptors come through.
//!
//! A receiver says the secret, and has a byte back. Then it asks: a byte that says for what, and a token of
//! eight (little-endian). Each has a byte back, with a descriptor beside it if one was asked for.

mod client;
mod protocol;
mod server;

pub(super) use client::DescriptorClient;
pub(super) use server::DescriptorServer;

#[cfg(test)]
mod tests;
