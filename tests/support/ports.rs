//! Ports for programs of a test. Tests of several packages include this file.

use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;

/// Port that nobody listens on; nor on the port after it. They are below the ports that outgoing connections get, so that no
/// other test takes them before the program listens.
pub fn free_port() -> u16 {
    let first = 12_000 + (RandomState::new().hash_one(()) % 8_000) as u16;
    let is_free = |port: u16| TcpListener::bind(("0.0.0.0", port)).is_ok();
    (first..20_000)
        .chain(12_000..first)
        .find(|&port| is_free(port) && is_free(port + 1))
        .unwrap()
}
