//! The Unix socket that descriptors come through.
//!
//! A receiver says the secret, and has a byte back. Then it asks: a byte that says for what, and a token of
//! eight (little-endian). Each has a byte back, with a descriptor beside it if one was asked for.

mod client;
mod protocol;
mod server;

pub(super) use client::Link;
pub(super) use server::Socket;

#[cfg(test)]
mod tests;
