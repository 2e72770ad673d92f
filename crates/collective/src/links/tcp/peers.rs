//! Connections between two ranks: the higher rank dials, the lower one accepts.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tensor::sync::Unpoisoned;

use crate::control::{Control, Listener};
use crate::error::{CollectiveError, Result};
use crate::secret::Secret;
use crate::stream::Stream;

/// Interval at which a wait polls for the end of the job.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout of one attempt to connect.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for which a connection of a rank that has left may still be in the queue.
const LEAVE_GRACE: Duration = Duration::from_secs(1);
/// Timeout of the greeting of a new connection.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of the greeting of a connection, before the secret: the rank, and the number of the connection.
const GREETING_BYTES: usize = 16;

/// Listener of a rank for connections of others.
pub(crate) struct Listening {
    listener: Listener,
    shared: Arc<Accepted>,
}

#[derive(Default)]
struct Accepted {
    /// Accepted connections that are not in use yet, by rank and number of the connection.
    waiting: Mutex<HashMap<(usize, usize), Stream>>,
    changed: Condvar,
}

impl Accepted {
    fn waiting(&self) -> MutexGuard<'_, HashMap<(usize, usize), Stream>> {
        self.waiting.lock().unpoisoned()
    }
}

impl Listening {
    /// Accepts up to `most` connections of other ranks, at an address of this machine.
    ///
    /// # Errors
    /// The system has no port or no thread.
    pub(crate) fn start(address: IpAddr, most: usize, secret: &Secret) -> io::Result<Listening> {
        let listener = TcpListener::bind((address, 0))?;
        let shared = Arc::new(Accepted::default());
        let (own, secret) = (shared.clone(), secret.clone());
        let listener = Listener::open(listener, "links", most, move |stream, place| {
            if let Some((of, stream)) = read_greeting(stream, &secret) {
                own.waiting().insert(of, stream);
                own.changed.notify_all();
            }
            drop(place);
        })?;
        Ok(Listening { listener, shared })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.address()
    }
}

/// Reads the greeting of a new connection: the rank and the number of the connection; `None` for another secret.
fn read_greeting(stream: TcpStream, secret: &Secret) -> Option<((usize, usize), Stream)> {
    let stream = Stream::accepted(stream, secret).ok()?;
    let mut greeting = vec![0; GREETING_BYTES + secret.text().len()];
    stream
        .read_exact_within(&mut greeting, GREETING_TIMEOUT)
        .ok()?;
    let (who, presented) = greeting.split_at(GREETING_BYTES);
    if !secret.admits(presented) {
        return None;
    }
    let number = |bytes: &[u8]| usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok();
    Some(((number(&who[..8])?, number(&who[8..])?), stream))
}

/// Connections of a rank to others, as they are made.
pub(super) struct Peers {
    pub(super) rank: usize,
    /// By rank: the address at which it listens.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) listening: Listening,
    pub(super) control: Arc<Control>,
    pub(super) secret: Secret,
}

impl Peers {
    /// Opens all connections of a link.
    ///
    /// # Errors
    /// The rank is lost, or does not come in time.
    pub(super) fn open(&self, peer: usize, connections: usize) -> Result<Vec<Stream>> {
        let open = |number: usize| match peer < self.rank {
            true => self.dial(peer, number),
            false => self.accept(peer, number),
        };
        (0..connections).map(open).collect()
    }

    fn dial(&self, peer: usize, number: usize) -> Result<Stream> {
        let stream = self.connect(peer)?;
        let dial = || {
            let stream = Stream::dialed(stream, self.addresses[peer], &self.secret)?;
            let mut greeting = Vec::new();
            greeting.extend_from_slice(&(self.rank as u64).to_le_bytes());
            greeting.extend_from_slice(&(number as u64).to_le_bytes());
            greeting.extend_from_slice(self.secret.text().as_bytes());
            stream.write_all_within(&greeting, GREETING_TIMEOUT)?;
            Ok(stream)
        };
        dial().map_err(|e: io::Error| self.lost(peer, e.to_string()))
    }

    /// Connects to a rank, with repeated attempts while it may be waited for.
    fn connect(&self, peer: usize) -> Result<TcpStream> {
        let began = Instant::now();
        loop {
            match TcpStream::connect_timeout(&self.addresses[peer], ATTEMPT_TIMEOUT) {
                Ok(stream) => return Ok(stream),
                Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                    self.control
                        .may_wait(peer, "a connection", began.elapsed())?;
                }
                Err(e) => {
                    let why = format!("{} is not reached: {e}", self.addresses[peer]);
                    return Err(self.lost(peer, why));
                }
            }
        }
    }

    /// Waits for a connection of a rank.
    fn accept(&self, peer: usize, number: usize) -> Result<Stream> {
        let (shared, began) = (&self.listening.shared, Instant::now());
        let mut left = None;
        let mut waiting = shared.waiting();
        loop {
            if let Some(stream) = waiting.remove(&(peer, number)) {
                return Ok(stream);
            }
            self.control
                .may_wait(peer, "a connection", began.elapsed())?;
            // Its connection may be in the queue.
            if self.control.has_left(peer)
                && left.get_or_insert_with(Instant::now).elapsed() > LEAVE_GRACE
            {
                return Err(CollectiveError::lost(peer, "it has shut down"));
            }
            waiting = shared
                .changed
                .wait_timeout(waiting, POLL_INTERVAL)
                .unpoisoned()
                .0;
        }
    }

    /// Error of a rank whose connection is broken, with the reason of the coordinator if there is one.
    pub(super) fn lost(&self, peer: usize, why: String) -> CollectiveError {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) {
            if let Some(failure) = self.control.failure() {
                return failure;
            }
            if self.control.has_left(peer) {
                return CollectiveError::lost(peer, "it has shut down");
            }
            thread::sleep(Duration::from_millis(5));
        }
        CollectiveError::lost(peer, why)
    }
}
