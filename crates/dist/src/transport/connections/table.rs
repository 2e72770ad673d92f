//! Table of a server's connections: bounds their number and evicts the least needed one.
//!
//! A connection has a slot from its accept to its close. It is unauthenticated until a call carries a valid token,
//! for which it has little time. When all slots are occupied, a new connection evicts the oldest unauthenticated one,
//! else the one without a call for longest. A connection with an open call is not evicted.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use std::time::Duration;

use thalweg_tensor::sync::Unpoisoned;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::responses::{ConnectionResponses, ResponseProgress};
use crate::limits::settings::limit_name;
use crate::metrics::counters::GaugeGuard;
use crate::metrics::tally::Refusals;
use crate::transport::peer_stats::{LossEpoch, PeerStats};

/// Time for an evicted connection to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Limits of a server's connections.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Maximum number of connections.
    pub(crate) most: usize,
    /// Time for TLS and the first call of an unauthenticated connection.
    pub(crate) arrival: Duration,
    /// Time that a connection may be without a call.
    pub(crate) idle: Duration,
    /// Time that a response may wait for the client to read it.
    pub(crate) heartbeat: Duration,
}

/// Slots of a server's connections.
pub(crate) struct ConnectionTable {
    bounds: ConnectionLimits,
    refusals: Arc<Refusals>,
    /// Number of connections that wait for an evicted one to close.
    waiting: AtomicU64,
    slots: Mutex<Slots>,
    /// Signals that a slot was freed.
    left: Notify,
}

#[derive(Default)]
struct Slots {
    next: u64,
    by_number: BTreeMap<u64, SlotUsage>,
}

/// A slot, and its use at the last sweep.
struct SlotUsage {
    slot: Arc<ConnectionSlot>,
    since: Instant,
    /// Number of calls that had begun, and the time when it last changed.
    begun: u64,
    used: Instant,
}

/// Slot of one connection.
pub(crate) struct ConnectionSlot {
    /// Address of the peer.
    pub(crate) address: SocketAddr,
    /// `true` once a call has carried a valid token.
    known: AtomicBool,
    begun: AtomicU64,
    ended: AtomicU64,
    ends: AtomicBool,
    /// `true` once the peer has sent a GOAWAY without an error.
    parts: AtomicBool,
    waker: Mutex<Option<Waker>>,
    answers: Mutex<ConnectionResponses>,
    /// Statistics of the peer, once its name is known.
    peer_stats: OnceLock<(Arc<PeerStats>, LossEpoch)>,
}

/// An occupied slot. A drop frees it.
pub(crate) struct OccupiedSlot {
    pub(crate) slot: Arc<ConnectionSlot>,
    number: u64,
    of: Arc<ConnectionTable>,
}

/// An open call on a connection. A drop ends it.
pub(crate) struct OpenCall(Arc<ConnectionSlot>);

impl ConnectionSlot {
    fn new(address: SocketAddr) -> ConnectionSlot {
        ConnectionSlot {
            address,
            known: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            parts: AtomicBool::new(false),
            waker: Mutex::default(),
            answers: Mutex::default(),
            peer_stats: OnceLock::new(),
        }
    }

    /// Returns the statistics of the peer, if it is known.
    pub(crate) fn peer_stats(&self) -> Option<&PeerStats> {
        Some(&*self.peer_stats.get()?.0)
    }

    /// Sets the peer. `true` if it had been lost.
    pub(crate) fn set_peer(&self, peer_stats: Arc<PeerStats>) -> bool {
        let (since, lost) = peer_stats.note_connected();
        // Of two concurrent calls, one sets it.
        let _ = self.peer_stats.set((peer_stats, since));
        lost
    }

    /// Notes a GOAWAY without an error.
    pub(super) fn note_goaway(&self) {
        self.parts.store(true, Relaxed);
    }

    /// Notes the end of the connection. The peer is lost if a call was open and no GOAWAY came.
    pub(super) fn note_closed(&self, why: &str) {
        if let Some((peer_stats, since)) = self.peer_stats.get()
            && self.has_calls()
            && !self.parts.load(Relaxed)
        {
            peer_stats.note_lost(*since, why);
        }
    }

    /// Notes a call with a valid token.
    pub(crate) fn authenticate(&self) {
        self.known.store(true, Relaxed);
    }

    /// Opens a call.
    pub(crate) fn call(self: &Arc<Self>) -> OpenCall {
        self.begun.fetch_add(1, Relaxed);
        OpenCall(self.clone())
    }

    /// `true` if a call is open.
    pub(crate) fn has_calls(&self) -> bool {
        let ended = self.ended.load(Relaxed);
        self.begun.load(Relaxed) > ended
    }

    /// Registers the waker for the end of the connection by the server.
    pub(super) fn register_waker(&self, waker: &Waker) {
        *self.waker.lock().unpoisoned() = Some(waker.clone());
    }

    /// Ends the connection by the server.
    fn end(&self) {
        self.ends.store(true, Relaxed);
        if let Some(waker) = self.waker.lock().unpoisoned().take() {
            waker.wake();
        }
    }

    /// Checks that the server does not end the connection.
    ///
    /// # Errors
    /// The server ends it.
    pub(super) fn check_open(&self) -> io::Result<()> {
        match self.ends.load(Relaxed) {
            false => Ok(()),
            true => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the connection has given way to another one, or was without a call or a taker for too long",
            )),
        }
    }
}

impl OpenCall {
    /// Returns the progress of its response.
    pub(crate) fn answer(&self) -> Arc<ResponseProgress> {
        self.0.answers.lock().unpoisoned().begin()
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

impl Drop for OccupiedSlot {
    fn drop(&mut self) {
        self.of
            .slots
            .lock()
            .unpoisoned()
            .by_number
            .remove(&self.number);
        self.of.left.notify_one();
    }
}

impl SlotUsage {
    fn is_unauthenticated(&self) -> bool {
        !self.slot.known.load(Relaxed)
    }

    fn ends(&self) -> bool {
        self.slot.ends.load(Relaxed)
    }

    /// Updates the time of the last use.
    fn update(&mut self, now: Instant) {
        let begun = self.slot.begun.load(Relaxed);
        if begun != self.begun || self.slot.has_calls() {
            (self.begun, self.used) = (begun, now);
        }
    }
}

impl ConnectionTable {
    pub(crate) fn new(bounds: ConnectionLimits, refusals: Arc<Refusals>) -> Arc<ConnectionTable> {
        Arc::new(ConnectionTable {
            bounds,
            refusals,
            waiting: AtomicU64::new(0),
            slots: Mutex::default(),
            left: Notify::new(),
        })
    }

    /// Occupies a slot for a connection from this address. `None` if every other connection has an open call.
    pub(crate) async fn take(self: &Arc<Self>, address: SocketAddr) -> Option<OccupiedSlot> {
        let most = self.bounds.most;
        if self.staying() >= most && !self.make_room() {
            return None;
        }
        // An evicted connection needs a moment to close.
        let leave = async {
            while self.taken() >= most {
                self.left.notified().await;
            }
        };
        let waits = GaugeGuard::begin(&self.waiting);
        tokio::time::timeout(CLOSE_TIMEOUT, leave).await.ok()?;
        drop(waits);
        let now = Instant::now();
        let slot = Arc::new(ConnectionSlot::new(address));
        let mut slots = self.slots.lock().unpoisoned();
        let number = slots.next;
        slots.next += 1;
        let usage = SlotUsage {
            slot: slot.clone(),
            since: now,
            begun: 0,
            used: now,
        };
        slots.by_number.insert(number, usage);
        let of = self.clone();
        Some(OccupiedSlot { slot, number, of })
    }

    /// Returns the number of connections.
    pub(crate) fn taken(&self) -> usize {
        self.slots.lock().unpoisoned().by_number.len()
    }

    /// Returns the number of connections that wait for a slot.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// Returns the number of responses that wait for their clients.
    pub(crate) fn answers(&self) -> u64 {
        let slots = self.slots.lock().unpoisoned();
        let waiting =
            (slots.by_number.values()).map(|u| u.slot.answers.lock().unpoisoned().waiting() as u64);
        waiting.sum()
    }

    /// Returns the counters of refusals.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Ends a connection that has met a limit, and counts it.
    fn end(&self, slot: &ConnectionSlot, limit: &'static str, why: &str) {
        self.refusals.count_closed(limit, slot.address, why);
        slot.end();
    }

    /// Returns the number of connections that are not about to end.
    fn staying(&self) -> usize {
        let slots = self.slots.lock().unpoisoned();
        slots.by_number.values().filter(|u| !u.ends()).count()
    }

    /// Evicts the least needed connection. `false` if there is none.
    pub(crate) fn make_room(&self) -> bool {
        let now = Instant::now();
        let mut slots = self.slots.lock().unpoisoned();
        let all = slots.by_number.values_mut();
        let free = all.filter_map(|u| {
            u.update(now);
            let free = u.is_unauthenticated() || !u.slot.has_calls();
            (free && !u.ends()).then_some(&*u)
        });
        // Unauthenticated ones first, the oldest of them; else the one without a call for longest.
        let worth = |u: &&SlotUsage| match u.is_unauthenticated() {
            true => (false, u.since),
            false => (true, u.used),
        };
        let least = free.min_by_key(worth);
        least
            .inspect(|u| {
                self.end(
                    &u.slot,
                    const { limit_name("connections") },
                    "all connections are taken",
                )
            })
            .is_some()
    }

    /// Ends expired connections.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        for usage in self.slots.lock().unpoisoned().by_number.values_mut() {
            usage.update(now);
            if usage.ends() {
                continue;
            }
            let (arrival, idle) = (self.bounds.arrival, self.bounds.idle);
            let (since, most, limit, why) = match usage.is_unauthenticated() {
                true => (
                    usage.since,
                    arrival,
                    const { limit_name("arrival") },
                    "no call has come on it",
                ),
                false => (
                    usage.used,
                    idle,
                    const { limit_name("idle") },
                    "it was idle for too long",
                ),
            };
            if now.duration_since(since) > most {
                self.end(&usage.slot, limit, why);
            } else if usage
                .slot
                .answers
                .lock()
                .unpoisoned()
                .stuck(now, self.bounds.heartbeat)
            {
                self.end(
                    &usage.slot,
                    const { limit_name("silence") },
                    "it does not take an answer",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRIVAL: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(100);

    async fn table(connections: usize) -> (Arc<ConnectionTable>, Vec<OccupiedSlot>) {
        let bounds = ConnectionLimits {
            most: 4,
            arrival: ARRIVAL,
            idle: IDLE,
            heartbeat: Duration::from_secs(1),
        };
        let table = ConnectionTable::new(bounds, Arc::default());
        let mut slots = Vec::new();
        for _ in 0..connections {
            let address = SocketAddr::from(([127, 0, 0, 1], 1));
            slots.push(table.take(address).await.unwrap());
        }
        (table, slots)
    }

    fn open(slots: &[OccupiedSlot]) -> Vec<bool> {
        let is_open = |s: &OccupiedSlot| s.slot.check_open().is_ok();
        slots.iter().map(is_open).collect()
    }

    fn met(table: &ConnectionTable, limit: &str) -> u64 {
        let all = table.refusals.limits.all();
        all.into_iter().find(|(name, _)| name == limit).unwrap().1
    }

    #[tokio::test(start_paused = true)]
    async fn a_sweep_ends_connections_without_a_call_after_their_time() {
        let (table, slots) = table(3).await;
        for known in &slots[1..] {
            known.slot.authenticate();
        }
        let call = slots[2].slot.call();
        for (after, expected) in [
            (ARRIVAL, [true, true, true]),
            (Duration::from_secs(1), [false, true, true]),
            (IDLE, [false, false, true]),
            (IDLE, [false, false, true]),
        ] {
            tokio::time::advance(after).await;
            table.sweep();
            assert_eq!(open(&slots), expected, "{after:?}");
        }
        drop(call);
        table.sweep();
        tokio::time::advance(IDLE + Duration::from_secs(1)).await;
        table.sweep();
        assert_eq!(open(&slots), [false; 3]);
        assert_eq!((met(&table, "arrival"), met(&table, "idle")), (1, 2));
        assert_eq!(table.taken(), 3);
        drop(slots);
        assert_eq!(table.taken(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_least_needed_connection_makes_room() {
        let (table, mut slots) = table(3).await;
        let step = Duration::from_secs(1);
        let _open = slots[0].slot.call();
        for at in [0, 2, 1] {
            tokio::time::advance(step).await;
            slots[at].slot.authenticate();
            drop(slots[at].slot.call());
            // A sweep notes the use.
            table.sweep();
        }
        tokio::time::advance(step).await;
        slots.push(table.take(slots[0].slot.address).await.unwrap());
        // The unauthenticated one, however new; then the one without a call for longest; never one with an open call.
        for expected in [
            [true, true, true, false],
            [true, true, false, false],
            [true, false, false, false],
        ] {
            assert!(table.make_room());
            assert_eq!(open(&slots), expected);
        }
        assert!(!table.make_room());
        assert_eq!(met(&table, "connections"), 3);
    }
}
