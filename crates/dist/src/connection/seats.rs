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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a connection that is told to end may take for that.
const LEAVES: Duration = Duration::from_secs(1);

/// The seats of a server.
pub(crate) struct Seats {
    /// How many there are.
    most: usize,
    /// How long a guest may take for TLS and the first call.
    arrival: Duration,
    /// How long a connection may have no call.
    idle: Duration,
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
    waker: Mutex<Option<Waker>>,
}

/// A seat that is free again when this is dropped.
pub(crate) struct Held {
    pub(crate) seat: Arc<Seat>,
    number: u64,
    of: Arc<Seats>,
}

/// A call on a connection, open until this is dropped.
pub(crate) struct Call(Arc<Seat>);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    fn new(address: SocketAddr) -> Seat {
        Seat {
            address,
            known: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            waker: Mutex::default(),
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
    fn end(&self, why: &str) {
        tracing::info!(address = %self.address, "a connection is closed: {why}");
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
                "the connection has given way to another one, or was idle for too long",
            )),
        }
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
    pub(crate) fn new(most: usize, arrival: Duration, idle: Duration) -> Arc<Seats> {
        Arc::new(Seats {
            most,
            arrival,
            idle,
            taken: Mutex::default(),
            left: Notify::new(),
        })
    }

    /// A seat for a connection that has come from there; none where every other one has a call open.
    pub(crate) async fn take(self: &Arc<Self>, address: SocketAddr) -> Option<Held> {
        if self.staying() >= self.most && !self.make_room() {
            return None;
        }
        // Who gives way needs a moment to leave.
        let leave = async {
            while self.taken() >= self.most {
                self.left.notified().await;
            }
        };
        tokio::time::timeout(LEAVES, leave).await.ok()?;
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
            .inspect(|u| u.seat.end("all connections are taken"))
            .is_some()
    }

    /// Ends connections whose time is over.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        for usage in locked(&self.taken).seats.values_mut() {
            usage.look(now);
            let (since, limit, why) = match usage.is_guest() {
                true => (usage.since, self.arrival, "no call has come on it"),
                false => (usage.used, self.idle, "it was idle for too long"),
            };
            if !usage.ends() && now.duration_since(since) > limit {
                usage.seat.end(why);
            }
        }
    }
}
