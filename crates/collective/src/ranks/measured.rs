//! What messages between hosts cost: measured once, when ranks of several hosts have met.

use std::time::Instant;

use super::{ALL_RANKS, Ranks};
use crate::error::Result;
use crate::links::{Incoming, Links, Outgoing, Sink};

/// Tells these messages from those of collectives.
const TAG: u64 = u64::from_le_bytes(*b"measured");
/// How often a short message goes to and fro.
const SHORT: usize = 6;
/// How often a long one does: TCP sends faster each time at first.
const LONG: usize = 4;
/// Its bytes: a tenth of a second at 20 Mbit/s.
const BYTES: usize = 256 << 10;

impl Ranks {
    /// Measures messages between the first rank and the first one of another host, and tells all ranks: they must choose
    /// alike. Ranks of one host keep what is known of TCP within a machine.
    ///
    /// # Errors
    /// As [`Ranks::broadcast`].
    pub(super) fn measure(&mut self) -> Result<()> {
        let Some(other) = self.hosts.iter().position(|&h| h != self.hosts[0]) else {
            return Ok(());
        };
        let mut found = [0f64; 2];
        match self.rank {
            0 => found = probe(&mut *self.links, other)?,
            rank if rank == other => found = probe(&mut *self.links, 0)?,
            _ => {}
        }
        let bytes = bytemuck::bytes_of_mut(&mut found);
        self.broadcast(ALL_RANKS, "what messages cost", 0, bytes)?;
        [self.cost.message, self.cost.byte] = found;
        Ok(())
    }
}

/// The seconds of a message and of a byte, to and from this rank at the same time: the best of some.
fn probe(links: &mut dyn Links, peer: usize) -> Result<[f64; 2]> {
    let mut fastest = |bytes: usize, times: usize| -> Result<f64> {
        let (sent, mut received) = (vec![0; bytes], vec![0; bytes]);
        let mut best = f64::INFINITY;
        for _ in 0..times {
            let began = Instant::now();
            let send = Outgoing {
                to: peer,
                tag: TAG,
                bytes: &sent,
            };
            let receive = Incoming {
                from: peer,
                tag: TAG,
                sink: Sink::store(&mut received),
            };
            links.exchange(Some(send), Some(receive))?;
            best = best.min(began.elapsed().as_secs_f64());
        }
        Ok(best)
    };
    let message: f64 = fastest(8, SHORT)?;
    let byte = (fastest(BYTES, LONG)? - message) / BYTES as f64;
    // A clock may be coarse: neither is for nothing.
    Ok([message.max(1e-7), byte.max(1e-12)])
}
