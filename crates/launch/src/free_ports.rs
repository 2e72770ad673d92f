//! Free ports for tasks, outside of the system's ephemeral range: a connection that some program opens takes none of them
//! before the task listens.

use std::hash::{BuildHasher, RandomState};
use std::io::{Error, ErrorKind, Result};
use std::net::TcpListener;
use std::ops::Range;

/// First port of the search.
const FIRST: u16 = 10_000;
/// Ephemeral range of a system that does not tell it: Linux's default.
const EPHEMERAL: Range<u16> = 32_768..61_000;

/// Returns sockets on this many free ports of this machine. A port is free until its socket is dropped.
///
/// # Errors
/// That of the system; [`ErrorKind::AddrInUse`] if so many ports are not free.
pub(crate) fn free_ports(count: usize) -> Result<Vec<TcpListener>> {
    let ports = outside(ephemeral_ports());
    // Launchers that start at the same time begin at different ports.
    let first = RandomState::new().hash_one(()) as usize % ports.len();
    let mut sockets = Vec::new();
    for &port in ports.iter().cycle().skip(first).take(ports.len()) {
        if sockets.len() == count {
            break;
        }
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(socket) => sockets.push(socket),
            Err(e) if e.kind() == ErrorKind::AddrInUse => {}
            Err(e) => return Err(e),
        }
    }
    match sockets.len() == count {
        true => Ok(sockets),
        false => Err(Error::from(ErrorKind::AddrInUse)),
    }
}

/// Ports that the system gives to outgoing connections.
fn ephemeral_ports() -> Range<u16> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let numbers = text.unwrap_or_default();
    let mut numbers = numbers.split_whitespace().map(str::parse::<u16>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => first..last.saturating_add(1),
        _ => EPHEMERAL,
    }
}

/// Ports that are not ephemeral; all of them if few are left.
fn outside(ephemeral: Range<u16>) -> Vec<u16> {
    /// Minimum number of ports to draw from.
    const ENOUGH: usize = 1000;

    let all = FIRST..=u16::MAX;
    let ports: Vec<u16> = all.clone().filter(|p| !ephemeral.contains(p)).collect();
    match ports.len() >= ENOUGH {
        true => ports,
        false => all.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_no_ephemeral_ones() {
        let ephemeral = ephemeral_ports();
        let sockets = free_ports(20).unwrap();
        let ports = sockets.iter().map(|s| s.local_addr().unwrap().port());
        let ports: std::collections::BTreeSet<u16> = ports.collect();
        assert_eq!(ports.len(), 20);
        let few = outside(ephemeral.clone())
            .iter()
            .any(|p| ephemeral.contains(p));
        assert!(
            few || !ports.iter().any(|p| ephemeral.contains(p)),
            "{ports:?}"
        );
    }

    #[test]
    fn a_system_whose_ports_are_nearly_all_ephemeral_has_free_ones() {
        assert_eq!(outside(1024..65_000).len(), 55_536);
        assert_eq!(outside(32_768..61_000).len(), 55_536 - 28_232);
    }
}
