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

use super::responses::{Answer, Answers};
use crate::limit_names::{ARRIVAL, CONNECTIONS, IDLE, SILENCE};
use crate::metrics::counters::Waits;
use crate::metrics::tally::Refusals;
use crate::runtime::lock::locked;
use crate::transport::contacts::{Contact, Since};

/// How long a connection that is told to end may take for that.
const LEAVES: Duration = Duration::from_secs(1);

/// What the connections of a server may take.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
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
pub(crate) struct Seats {
    bounds: Bounds,
    refusals: Arc<Refusals>,
    /// Connections that wait for the seat of another one.
    waiting: AtomicU64,
    taken: Mutex<Taken>,
    /// Somebody has left.
    left: Notify,
}

#[derive(Default)]
struct Taken {
    next: u64,
    seats: BTreeMap<u64, Usage>,
}

/// A seat, and what was last seen of it.
struct Usage {
    seat: Arc<Seat>,
    since: Instant,
    /// How many calls had begun, and when that was new.
    begun: u64,
    used: Instant,
}

/// One connection's seat.
pub(crate) struct Seat {
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
    answers: Mutex<Answers>,
    /// The task at the other end, once it has said its name.
    contact: OnceLock<(Arc<Contact>, Since)>,
}

/// A seat that is free again when this is dropped.
pub(crate) struct Held {
    pub(crate) seat: Arc<Seat>,
    number: u64,
    of: Arc<Seats>,
}

/// A call on a connection, open until this is dropped.
pub(crate) struct Call(Arc<Seat>);

impl Seat {
    fn new(address: SocketAddr) -> Seat {
        Seat {
            address,
            known: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            parts: AtomicBool::new(false),
            waker: Mutex::default(),
            answers: Mutex::default(),
            contact: OnceLock::new(),
        }
    }

    /// The task at the other end, where it is known.
    pub(crate) fn contact(&self) -> Option<&Contact> {
        Some(&*self.contact.get()?.0)
    }

    /// Notes which task is at the other end. Whether that task had been lost.
    pub(crate) fn is_of(&self, contact: Arc<Contact>) -> bool {
        let (since, lost) = contact.begin();
        // Of two calls at a time, one does it.
        let _ = self.contact.set((contact, since));
        lost
    }

    /// Notes that the other side has said that it ends the connection.
    pub(super) fn part(&self) {
        self.parts.store(true, Relaxed);
    }

    /// Notes that the other side has gone: in the middle of a call and without a word, it is lost.
    pub(super) fn left(&self, why: &str) {
        if let Some((contact, since)) = self.contact.get()
            && self.has_calls()
            && !self.parts.load(Relaxed)
        {
            contact.lose(*since, why);
        }
    }

    /// Notes that a call with the right token has come.
    pub(crate) fn admit(&self) {
        self.known.store(true, Relaxed);
    }

    /// Begins a call.
    pub(crate) fn call(self: &Arc<Self>) -> Call {
        self.begun.fetch_add(1, Relaxed);
        Call(self.clone())
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

impl Call {
    /// Its answer begins.
    pub(crate) fn answer(&self) -> Arc<Answer> {
        locked(&self.0.answers).begin()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        locked(&self.of.taken).seats.remove(&self.number);
        self.of.left.notify_one();
    }
}

impl Usage {
    fn is_guest(&self) -> bool {
        !self.seat.known.load(Relaxed)
    }

    fn ends(&self) -> bool {
        self.seat.ends.load(Relaxed)
    }

    /// Looks whether it is in use.
    fn look(&mut self, now: Instant) {
        let begun = self.seat.begun.load(Relaxed);
        if begun != self.begun || self.seat.has_calls() {
            (self.begun, self.used) = (begun, now);
        }
    }
}

impl Seats {
    pub(crate) fn new(bounds: Bounds, refusals: Arc<Refusals>) -> Arc<Seats> {
        Arc::new(Seats {
            bounds,
            refusals,
            waiting: AtomicU64::new(0),
            taken: Mutex::default(),
            left: Notify::new(),
        })
    }

    /// A seat for a connection that has come from there; none where every other one has a call open.
    pub(crate) async fn take(self: &Arc<Self>, address: SocketAddr) -> Option<Held> {
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
        let waits = Waits::begin(&self.waiting);
        tokio::time::timeout(LEAVES, leave).await.ok()?;
        drop(waits);
        let now = Instant::now();
        let seat = Arc::new(Seat::new(address));
        let mut taken = locked(&self.taken);
        let number = taken.next;
        taken.next += 1;
        let usage = Usage {
            seat: seat.clone(),
            since: now,
            begun: 0,
            used: now,
        };
        taken.seats.insert(number, usage);
        let of = self.clone();
        Some(Held { seat, number, of })
    }

    /// How many connections there are.
    pub(crate) fn taken(&self) -> usize {
        locked(&self.taken).seats.len()
    }

    /// How many connections wait for a seat.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// How many answers wait for whoever asked for them.
    pub(crate) fn answers(&self) -> u64 {
        let taken = locked(&self.taken);
        let waiting = (taken.seats.values()).map(|u| locked(&u.seat.answers).waiting() as u64);
        waiting.sum()
    }

    /// What is refused here.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Ends a connection that has met a limit.
    fn end(&self, seat: &Seat, limit: &'static str, why: &str) {
        self.refusals.closed(limit, seat.address, why);
        seat.end();
    }

    /// How many of them do not end.
    fn staying(&self) -> usize {
        let taken = locked(&self.taken);
        taken.seats.values().filter(|u| !u.ends()).count()
    }

    /// Ends the connection that is needed least; false where there is none.
    pub(crate) fn make_room(&self) -> bool {
        let now = Instant::now();
        let mut taken = locked(&self.taken);
        let all = taken.seats.values_mut();
        let free = all.filter_map(|u| {
            u.look(now);
            let free = u.is_guest() || !u.seat.has_calls();
            (free && !u.ends()).then_some(&*u)
        });
        // Guests before others; of guests who came first, of others who had no call for longest.
        let worth = |u: &&Usage| match u.is_guest() {
            true => (false, u.since),
            false => (true, u.used),
        };
        let least = free.min_by_key(worth);
        least
            .inspect(|u| self.end(&u.seat, CONNECTIONS, "all connections are taken"))
            .is_some()
    }

    /// Ends connections whose time is over.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        for usage in locked(&self.taken).seats.values_mut() {
            usage.look(now);
            if usage.ends() {
                continue;
            }
            let (arrival, idle) = (self.bounds.arrival, self.bounds.idle);
            let (since, most, limit, why) = match usage.is_guest() {
                true => (usage.since, arrival, ARRIVAL, "no call has come on it"),
                false => (usage.used, idle, IDLE, "it was idle for too long"),
            };
            if now.duration_since(since) > most {
                self.end(&usage.seat, limit, why);
            } else if locked(&usage.seat.answers).stuck(now, self.bounds.heartbeat) {
                self.end(&usage.seat, SILENCE, "it does not take an answer");
            }
        }
    }
}
