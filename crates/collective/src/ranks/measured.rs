//! Measured cost of messages: once between hosts, at the rendezvous, and when asked for.

use std::time::Instant;

use thalweg_estimate::LinkCost;

use super::{ALL_RANKS, Ranks};
use crate::error::{CollectiveError, Result};
use crate::links::{Incoming, Links, Outgoing, Sink};

/// Tag of the probe messages.
const PROBE_TAG: u64 = u64::from_le_bytes(*b"measured");
/// Number of exchanges of a short message.
const SHORT_REPEATS: usize = 6;
/// Number of exchanges of a long message: TCP gets faster with each at first.
const LONG_REPEATS: usize = 4;
/// Bytes of a long message: a tenth of a second at 20 Mbit/s.
const LONG_BYTES: usize = 256 << 10;

impl Ranks {
    /// Sets the cost of messages to the measured one, by which all ranks choose the same algorithm. Ranks of one host keep the
    /// defaults.
    ///
    /// # Errors
    /// As [`Ranks::broadcast`].
    pub(super) fn measure(&mut self) -> Result<()> {
        if self.hosts.iter().all(|&h| h == self.hosts[0]) {
            return Ok(());
        }
        let measured = self.measured_link()?;
        (self.cost.message, self.cost.byte) = (measured.message, measured.byte);
        Ok(())
    }

    /// Measures messages between the first rank and the first one of another host, or the second rank if all are on one host:
    /// over TCP, without shared memory. All ranks call it, and all have the result: a time of a message and of a byte, and the
    /// other numbers of [`Ranks::cost`].
    ///
    /// # Errors
    /// As [`Ranks::broadcast`]; there is one rank alone.
    pub fn measured_link(&mut self) -> Result<LinkCost> {
        let far = self.hosts.iter().position(|&h| h != self.hosts[0]);
        let other = far.unwrap_or(1);
        if self.hosts.len() < 2 {
            let reason = "a link is between two ranks, and there is one alone: start more";
            return Err(CollectiveError::Argument(reason.to_owned()));
        }
        let mut found = [0f64; 2];
        match self.rank {
            0 => found = probe(&mut *self.links, other)?,
            rank if rank == other => found = probe(&mut *self.links, 0)?,
            _ => {}
        }
        let bytes = bytemuck::bytes_of_mut(&mut found);
        self.broadcast(ALL_RANKS, "cost of messages", 0, bytes)?;
        let [message, byte] = found;
        Ok(LinkCost {
            message,
            byte,
            ..self.cost
        })
    }
}

/// Seconds of a message and of a byte in both directions at the same time: the best of several exchanges.
fn probe(links: &mut dyn Links, peer: usize) -> Result<[f64; 2]> {
    let mut fastest = |bytes: usize, times: usize| -> Result<f64> {
        let (sent, mut received) = (vec![0; bytes], vec![0; bytes]);
        let mut best = f64::INFINITY;
        for _ in 0..times {
            let began = Instant::now();
            let send = Outgoing {
                to: peer,
                tag: PROBE_TAG,
                bytes: &sent,
            };
            let receive = Incoming {
                from: peer,
                tag: PROBE_TAG,
                sink: Sink::store(&mut received),
            };
            links.exchange(Some(send), Some(receive))?;
            best = best.min(began.elapsed().as_secs_f64());
        }
        Ok(best)
    };
    let message: f64 = fastest(8, SHORT_REPEATS)?;
    let byte = (fastest(LONG_BYTES, LONG_REPEATS)? - message) / LONG_BYTES as f64;
    // A coarse clock must not make a cost 0.
    Ok([message.max(1e-7), byte.max(1e-12)])
}
