//! Ports that tasks may use.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// First port of the servers of a host: that of the report's scripts.
const FIRST_SERVER_PORT: u16 = 2230;
/// First port of the workers of a host.
const FIRST_WORKER_PORT: u16 = 2220;
/// First port of the metrics of a host's tasks.
const FIRST_METRICS_PORT: u16 = 9100;
/// Ports beyond one for each task, in place of those that are taken.
const SPARE: usize = 64;
/// First port of the search for free ones.
const FIRST: u16 = 10_000;
/// Ephemeral range of a system that does not tell it: Linux's default.
const EPHEMERAL: Range<u16> = 32_768..61_000;

/// Ports for the tasks of a host, in the order in which they are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChoice {
    /// Ports for servers.
    pub servers: Vec<u16>,
    /// Ports for workers.
    pub workers: Vec<u16>,
    /// Ports for the metrics of servers and workers; empty if they serve none.
    pub metrics: Vec<u16>,
}

impl PortChoice {
    /// No ports, for ranks: they choose their own.
    pub fn none() -> PortChoice {
        PortChoice {
            servers: Vec::new(),
            workers: Vec::new(),
            metrics: Vec::new(),
        }
    }

    /// Ports from 2230 on for servers, from 2220 on for workers, and from 9100 on for metrics, for a host with at most so many
    /// tasks.
    pub fn fixed(tasks: usize) -> PortChoice {
        let from = |first| {
            (first..=u16::MAX)
                .take(tasks.saturating_add(SPARE))
                .collect()
        };
        PortChoice {
            servers: from(FIRST_SERVER_PORT),
            workers: from(FIRST_WORKER_PORT),
            metrics: from(FIRST_METRICS_PORT),
        }
    }

    /// These ports, with those for metrics if they are wanted.
    pub fn with_metrics(self, wanted: bool) -> PortChoice {
        match wanted {
            true => self,
            false => PortChoice {
                metrics: Vec::new(),
                ..self
            },
        }
    }

    /// Ports outside of this system's ephemeral range, from a random one on: launchers that start at the same time begin at
    /// different ports, and a connection that some program opens takes none before its task listens.
    pub fn random(tasks: usize) -> PortChoice {
        let ports = outside(ephemeral_ports());
        let first = RandomState::new().hash_one(()) as usize % ports.len();
        let from = ports.iter().cycle().skip(first);
        let count = tasks
            .saturating_mul(2)
            .saturating_add(SPARE)
            .min(ports.len());
        let all: Vec<u16> = from.take(count).copied().collect();
        PortChoice {
            servers: all.clone(),
            workers: all.clone(),
            metrics: all,
        }
    }

    /// All of the ports.
    pub fn all(&self) -> Vec<u16> {
        let mut all = [&self.servers[..], &self.workers, &self.metrics].concat();
        all.sort_unstable();
        all.dedup();
        all
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
    fn random_ports_are_no_ephemeral_ones() {
        let ephemeral = ephemeral_ports();
        let ports = PortChoice::random(20).all();
        assert_eq!(ports.len(), 40 + SPARE);
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
