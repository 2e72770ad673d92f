//! Links over TCP. A rank connects to another one when an algorithm first needs it: the higher rank connects, the lower one
//! accepts. A message is a tag and a length, eight bytes each, and then its bytes.

use std::collections::HashMap;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Incoming, Links, Outgoing, same};
use crate::aligned::Aligned;
use crate::control::{Control, Door, same_secret};
use crate::error::{CollectiveError, Result};

/// Bytes before each message.
const HEADER: usize = 16;
/// Bytes that are received before they are reduced: they stay in the cache.
const PIECE: usize = 256 << 10;
/// How long a wait lasts before it is looked whether the job has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long one attempt to connect takes at most.
const ATTEMPT: Duration = Duration::from_millis(500);
/// How long a rank that has left may still have a connection that waits to be looked at.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long the other end of a new connection may take to say who it is.
const FIRST: Duration = Duration::from_secs(10);

/// The connections of a rank.
pub(crate) struct TcpLinks {
    rank: usize,
    /// By rank: where it listens.
    addresses: Vec<SocketAddr>,
    /// By rank: the connection, once there is one.
    peers: Vec<Option<TcpStream>>,
    listening: Listening,
    control: Arc<Control>,
    piece: Aligned,
    secret: String,
}

/// Where a rank accepts connections.
pub(crate) struct Listening {
    door: Door,
    shared: Arc<Accepted>,
}

#[derive(Default)]
struct Accepted {
    /// By rank: connections that nobody has used yet.
    waiting: Mutex<HashMap<usize, TcpStream>>,
    changed: Condvar,
}

impl Accepted {
    fn waiting(&self) -> MutexGuard<'_, HashMap<usize, TcpStream>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listening {
    /// Accepts connections of other ranks at an address of this machine.
    ///
    /// # Errors
    /// The system has no port or no thread.
    pub(crate) fn start(address: IpAddr, ranks: usize, secret: &str) -> io::Result<Listening> {
        let listener = TcpListener::bind((address, 0))?;
        let shared = Arc::new(Accepted::default());
        let (own, secret) = (shared.clone(), secret.to_owned());
        let door = Door::open(listener, "links", ranks, move |stream, guest| {
            if let Some(rank) = greeted(&stream, &secret) {
                own.waiting().insert(rank, stream);
                own.changed.notify_all();
            }
            drop(guest);
        })?;
        Ok(Listening { door, shared })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.door.address()
    }
}

/// Which rank a new connection is of; none where it does not know the secret.
fn greeted(mut stream: &TcpStream, secret: &str) -> Option<usize> {
    stream.set_read_timeout(Some(FIRST)).ok()?;
    let mut greeting = vec![0; 8 + secret.len()];
    stream.read_exact(&mut greeting).ok()?;
    let (rank, said) = greeting.split_at(8);
    if !same_secret(said, secret.as_bytes()) {
        return None;
    }
    ready(stream).ok()?;
    usize::try_from(u64::from_le_bytes(rank.try_into().ok()?)).ok()
}

/// Sets what all connections have.
fn ready(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

impl TcpLinks {
    /// The links of a rank to those that listen at these addresses.
    pub(crate) fn new(
        rank: usize,
        addresses: Vec<SocketAddr>,
        listening: Listening,
        control: Arc<Control>,
        secret: &str,
    ) -> TcpLinks {
        TcpLinks {
            rank,
            peers: addresses.iter().map(|_| None).collect(),
            addresses,
            listening,
            control,
            piece: Aligned::zeroed(PIECE),
            secret: secret.to_owned(),
        }
    }

    /// Connects with a rank, unless that was done.
    fn connect(&mut self, peer: usize) -> Result<()> {
        if self.peers[peer].is_some() {
            return Ok(());
        }
        let stream = match peer < self.rank {
            true => self.dial(peer)?,
            false => self.accepted(peer)?,
        };
        self.peers[peer] = Some(stream);
        Ok(())
    }

    fn dial(&self, peer: usize) -> Result<TcpStream> {
        let mut stream = self.connected(peer)?;
        let mut dial = || {
            stream.write_all(&(self.rank as u64).to_le_bytes())?;
            stream.write_all(self.secret.as_bytes())?;
            ready(&stream)
        };
        let done = dial();
        done.map_err(|e| self.lost(peer, e.to_string()))?;
        Ok(stream)
    }

    /// A connection to a rank: it is looked now and then whether to wait for it any longer.
    fn connected(&self, peer: usize) -> Result<TcpStream> {
        let began = Instant::now();
        loop {
            match TcpStream::connect_timeout(&self.addresses[peer], ATTEMPT) {
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

    fn accepted(&self, peer: usize) -> Result<TcpStream> {
        let (shared, began) = (&self.listening.shared, Instant::now());
        let mut left = None;
        let mut waiting = shared.waiting();
        loop {
            if let Some(stream) = waiting.remove(&peer) {
                return Ok(stream);
            }
            self.control
                .may_wait(peer, "a connection", began.elapsed())?;
            // Its connection may have come, and not been looked at.
            if self.control.has_left(peer)
                && left.get_or_insert_with(Instant::now).elapsed() > FAREWELL
            {
                return Err(CollectiveError::lost(peer, "it has shut down"));
            }
            let waited = shared.changed.wait_timeout(waiting, LOOK);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A rank whose connection is broken: for the reason that the coordinator knows, if it does.
    fn lost(&self, peer: usize, why: String) -> CollectiveError {
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

/// A message that is being sent.
struct Sending<'a> {
    message: Outgoing<'a>,
    header: [u8; HEADER],
    /// Bytes that are out, of the header and of the message.
    done: usize,
}

impl<'a> Sending<'a> {
    fn new(message: Outgoing<'a>) -> Sending<'a> {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&message.tag.to_le_bytes());
        header[8..].copy_from_slice(&(message.bytes.len() as u64).to_le_bytes());
        Sending {
            message,
            header,
            done: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.done == HEADER + self.message.bytes.len()
    }

    /// Sends what the system takes; whether it took anything.
    fn go_on(&mut self, mut stream: &TcpStream) -> io::Result<bool> {
        let before = self.done;
        while !self.is_done() {
            let header = self.header.get(self.done..).unwrap_or_default();
            let bytes = &self.message.bytes[self.done.saturating_sub(HEADER)..];
            match stream.write_vectored(&[IoSlice::new(header), IoSlice::new(bytes)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.done += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(self.done > before)
    }
}

/// A message that is being received.
struct Receiving<'a> {
    message: Incoming<'a>,
    header: [u8; HEADER],
    /// Bytes that have come, of the header and of the message.
    done: usize,
    /// Bytes of the message that have been reduced.
    taken: usize,
}

/// What a message is that is not the expected one, or why the stream is broken.
enum Broken {
    Other(CollectiveError),
    Stream(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Stream(error)
    }
}

impl<'a> Receiving<'a> {
    fn new(message: Incoming<'a>) -> Receiving<'a> {
        Receiving {
            message,
            header: [0; HEADER],
            done: 0,
            taken: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.done == HEADER + self.message.sink.len()
    }

    /// Takes what has come; whether anything has.
    fn go_on(
        &mut self,
        mut stream: &TcpStream,
        piece: &mut [u8],
    ) -> std::result::Result<bool, Broken> {
        let before = self.done;
        while !self.is_done() {
            let at = self.done.saturating_sub(HEADER);
            let total = self.message.sink.len();
            let room = if self.done < HEADER {
                &mut self.header[self.done..]
            } else if let Some(room) = self.message.sink.room(at) {
                room
            } else {
                let most = piece.len().min(total - self.taken);
                &mut piece[at - self.taken..most]
            };
            match stream.read(room) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(n) => self.done += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.into()),
            }
            if self.done == HEADER {
                self.check().map_err(Broken::Other)?;
            }
            self.reduce(piece);
        }
        Ok(self.done > before)
    }

    fn check(&self) -> Result<()> {
        let (tag, len) = self.header.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let comes = (number(tag), number(len) as usize);
        same(
            self.message.from,
            comes,
            (self.message.tag, self.message.sink.len()),
        )
    }

    /// Reduces a piece that is whole.
    fn reduce(&mut self, piece: &[u8]) {
        let came = self.done.saturating_sub(HEADER);
        if self.message.sink.room(came).is_some() {
            self.taken = came;
            return;
        }
        let there = came - self.taken;
        if there == piece.len() || came == self.message.sink.len() {
            self.message.sink.take(self.taken, &piece[..there]);
            self.taken = came;
        }
    }
}

impl Links for TcpLinks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.addresses.len()
    }

    fn exchange(
        &mut self,
        send: Option<Outgoing<'_>>,
        receive: Option<Incoming<'_>>,
    ) -> Result<()> {
        if let Some(send) = &send {
            self.connect(send.to)?;
        }
        if let Some(receive) = &receive {
            self.connect(receive.from)?;
        }
        let mut sending = send.map(Sending::new);
        let mut receiving = receive.map(Receiving::new);
        // It is away while streams are borrowed.
        let mut piece = std::mem::take(&mut self.piece);
        let result = self.both(&mut sending, &mut receiving, piece.bytes_mut());
        self.piece = piece;
        result
    }
}

impl TcpLinks {
    fn both(
        &self,
        sending: &mut Option<Sending<'_>>,
        receiving: &mut Option<Receiving<'_>>,
        piece: &mut [u8],
    ) -> Result<()> {
        let mut began = Instant::now();
        loop {
            let mut went_on = false;
            if let Some(s) = sending.as_mut().filter(|s| !s.is_done()) {
                let to = s.message.to;
                let went = s.go_on(self.stream(to)?);
                went_on |= went.map_err(|e| self.lost(to, e.to_string()))?;
            }
            if let Some(r) = receiving.as_mut().filter(|r| !r.is_done()) {
                let from = r.message.from;
                went_on |= match r.go_on(self.stream(from)?, piece) {
                    Ok(went) => went,
                    Err(Broken::Other(error)) => return Err(error),
                    Err(Broken::Stream(e)) => return Err(self.lost(from, e.to_string())),
                };
            }
            let to = sending
                .as_ref()
                .filter(|s| !s.is_done())
                .map(|s| s.message.to);
            let from = receiving
                .as_ref()
                .filter(|r| !r.is_done())
                .map(|r| r.message.from);
            if to.is_none() && from.is_none() {
                return Ok(());
            }
            if went_on {
                began = Instant::now();
                continue;
            }
            // Whether the peer has left shows at the end of its connection: what it has sent may still be on the way.
            self.control
                .may_wait(from.or(to).unwrap_or(0), "a message", began.elapsed())?;
            self.wait(to, from)?;
        }
    }

    fn stream(&self, peer: usize) -> Result<&TcpStream> {
        let none = || CollectiveError::lost(peer, "there is no connection");
        self.peers[peer].as_ref().ok_or_else(none)
    }

    /// Waits until one may be written to, or the other read from; a moment at most.
    #[cfg(unix)]
    fn wait(&self, to: Option<usize>, from: Option<usize>) -> Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = Vec::with_capacity(2);
        if let Some(to) = to {
            fds.push(PollFd::new(self.stream(to)?, PollFlags::OUT));
        }
        if let Some(from) = from {
            fds.push(PollFd::new(self.stream(from)?, PollFlags::IN));
        }
        let most = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK.as_nanos() as _,
        };
        // An error shows when the stream is used.
        let _ = poll(&mut fds, Some(&most));
        Ok(())
    }

    #[cfg(not(unix))]
    fn wait(&self, _: Option<usize>, _: Option<usize>) -> Result<()> {
        thread::sleep(Duration::from_micros(50));
        Ok(())
    }
}
