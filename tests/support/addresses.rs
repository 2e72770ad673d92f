//! Addresses for servers on loopback.

use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;

/// Ports below the system's ephemeral range: no outgoing connection of another test can take one before the server
/// listens on it.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// Free addresses: no socket listens on them.
pub fn free_addresses(count: usize) -> Vec<String> {
    let drawn = RandomState::new().hash_one(()) as usize % PORTS.len();
    let from_there = PORTS.cycle().skip(drawn).take(PORTS.len());
    let free = from_there.filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let held: Vec<TcpListener> = free.take(count).collect();
    assert_eq!(held.len(), count, "this machine has no free ports");
    let address = |l: &TcpListener| l.local_addr().unwrap().to_string();
    held.iter().map(address).collect()
}
