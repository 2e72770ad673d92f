//! The connections of a server: how many there may be, and which one gives way.
//!
//! A connection has a seat from the moment that it was accepted until it is closed. It is a guest's until a call
//! with the right token has come on it. Guests have little time for that. When all seats are taken, the guest who
//! came first gives way to who comes next, then the one who had no call for longest. Whoever has a call open
//! keeps the seat.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::responses::{ConnectionResponses, ResponseProgress};
use crate::limit_names::{ARRIVAL, CONNECTIONS, IDLE, SILENCE};
use crate::metrics::counters::GaugeGuard;
use crate::metrics::tally::Refusals;
use crate::runtime::lock::locked;
use crate::transport::peer_stats::{LossEpoch, PeerStats};

/// How long a connection that is told to end may take for that.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the connections of a server may take.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// How many there may be.
    pub(crate) most: usize,
    /// How long a guest may take for TLS and the first call.
    pub(crate) arrival: Duration,
    /// How long a connection may have no call.
    pub(crate) idle: Duration,
    /// How long an answer may wait for whoever asked for it.
    pub(crate) heartbeat: Duration,
}

/// The seats of a server.
pub(crate) struct ConnectionTable {
    bounds: ConnectionLimits,
    refusals: Arc<Refusals>,
    /// Connections that wait for the seat of another one.
    waiting: AtomicU64,
    slots: Mutex<Slots>,
    /// Somebody has left.
    left: Notify,
}

#[derive(Default)]
struct Slots {
    next: u64,
    by_number: BTreeMap<u64, SlotUsage>,
}

/// A seat, and what was last seen of it.
struct SlotUsage {
    slot: Arc<ConnectionSlot>,
    since: Instant,
    /// How many calls had begun, and when that was new.
    begun: u64,
    used: Instant,
}

/// One connection's seat.
pub(crate) struct ConnectionSlot {
    /// Where the other side is.
    pub(crate) address: SocketAddr,
    /// Whether a call with the right token has come.
    known: AtomicBool,
    begun: AtomicU64,
    ended: AtomicU64,
    ends: AtomicBool,
    /// Whether the other side has said that it ends the connection.
    parts: AtomicBool,
    waker: Mutex<Option<Waker>>,
    answers: Mutex<ConnectionResponses>,
    /// The task at the other end, once it has said its name.
    peer_stats: OnceLock<(Arc<PeerStats>, LossEpoch)>,
}

/// A seat that is free again when this is dropped.
pub(crate) struct OccupiedSlot {
    pub(crate) slot: Arc<ConnectionSlot>,
    number: u64,
    of: Arc<ConnectionTable>,
}

/// A call on a connection, open until this is dropped.
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

    /// The task at the other end, where it is known.
    pub(crate) fn peer_stats(&self) -> Option<&PeerStats> {
        Some(&*self.peer_stats.get()?.0)
    }

    /// Notes which task is at the other end. Whether that task had been lost.
    pub(crate) fn is_of(&self, peer_stats: Arc<PeerStats>) -> bool {
        let (since, lost) = peer_stats.note_connected();
        // Of two calls at a time, one does it.
        let _ = self.peer_stats.set((peer_stats, since));
        lost
    }

    /// Notes that the other side has said that it ends the connection.
    pub(super) fn part(&self) {
        self.parts.store(true, Relaxed);
    }

    /// Notes that the other side has gone: in the middle of a call and without a word, it is lost.
    pub(super) fn left(&self, why: &str) {
        if let Some((peer_stats, since)) = self.peer_stats.get()
            && self.has_calls()
            && !self.parts.load(Relaxed)
        {
            peer_stats.note_lost(*since, why);
        }
    }

    /// Notes that a call with the right token has come.
    pub(crate) fn admit(&self) {
        self.known.store(true, Relaxed);
    }

    /// Begins a call.
    pub(crate) fn call(self: &Arc<Self>) -> OpenCall {
        self.begun.fetch_add(1, Relaxed);
        OpenCall(self.clone())
    }

    /// Whether a call is open.
    pub(crate) fn has_calls(&self) -> bool {
        let ended = self.ended.load(Relaxed);
        self.begun.load(Relaxed) > ended
    }

    /// Tells whom to wake when the connection is to end.
    pub(super) fn wakes(&self, waker: &Waker) {
        *locked(&self.waker) = Some(waker.clone());
    }

    /// Ends the connection.
    fn end(&self) {
        self.ends.store(true, Relaxed);
        if let Some(waker) = locked(&self.waker).take() {
            waker.wake();
        }
    }

    /// Whether the connection is to end.
    ///
    /// # Errors
    /// It is.
    pub(super) fn ends(&self) -> io::Result<()> {
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
    /// Its answer begins.
    pub(crate) fn answer(&self) -> Arc<ResponseProgress> {
        locked(&self.0.answers).begin()
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

impl Drop for OccupiedSlot {
    fn drop(&mut self) {
        locked(&self.of.slots).by_number.remove(&self.number);
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

    /// Looks whether it is in use.
    fn look(&mut self, now: Instant) {
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

    /// A seat for a connection that has come from there; none where every other one has a call open.
    pub(crate) async fn take(self: &Arc<Self>, address: SocketAddr) -> Option<OccupiedSlot> {
        let most = self.bounds.most;
        if self.staying() >= most && !self.make_room() {
            return None;
        }
        // Who gives way needs a moment to leave.
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
        let mut slots = locked(&self.slots);
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

    /// How many connections there are.
    pub(crate) fn taken(&self) -> usize {
        locked(&self.slots).by_number.len()
    }

    /// How many connections wait for a seat.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// How many answers wait for whoever asked for them.
    pub(crate) fn answers(&self) -> u64 {
        let slots = locked(&self.slots);
        let waiting = (slots.by_number.values()).map(|u| locked(&u.slot.answers).waiting() as u64);
        waiting.sum()
    }

    /// What is refused here.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Ends a connection that has met a limit.
    fn end(&self, slot: &ConnectionSlot, limit: &'static str, why: &str) {
        self.refusals.closed(limit, slot.address, why);
        slot.end();
    }

    /// How many of them do not end.
    fn staying(&self) -> usize {
        let slots = locked(&self.slots);
        slots.by_number.values().filter(|u| !u.ends()).count()
    }

    /// Ends the connection that is needed least; false where there is none.
    pub(crate) fn make_room(&self) -> bool {
        let now = Instant::now();
        let mut slots = locked(&self.slots);
        let all = slots.by_number.values_mut();
        let free = all.filter_map(|u| {
            u.look(now);
            let free = u.is_unauthenticated() || !u.slot.has_calls();
            (free && !u.ends()).then_some(&*u)
        });
        // Guests before others; of guests who came first, of others who had no call for longest.
        let worth = |u: &&SlotUsage| match u.is_unauthenticated() {
            true => (false, u.since),
            false => (true, u.used),
        };
        let least = free.min_by_key(worth);
        least
            .inspect(|u| self.end(&u.slot, CONNECTIONS, "all connections are taken"))
            .is_some()
    }

    /// Ends connections whose time is over.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        for usage in locked(&self.slots).by_number.values_mut() {
            usage.look(now);
            if usage.ends() {
                continue;
            }
            let (arrival, idle) = (self.bounds.arrival, self.bounds.idle);
            let (since, most, limit, why) = match usage.is_unauthenticated() {
                true => (usage.since, arrival, ARRIVAL, "no call has come on it"),
                false => (usage.used, idle, IDLE, "it was idle for too long"),
            };
            if now.duration_since(since) > most {
                self.end(&usage.slot, limit, why);
            } else if locked(&usage.slot.answers).stuck(now, self.bounds.heartbeat) {
                self.end(&usage.slot, SILENCE, "it does not take an answer");
            }
        }
    }
}
