//! Liveness of a connection's peer: it is alive while bytes move.
//!
//! A ping waits behind all bytes that were sent before it, and a slow line holds seconds of them. So the latency of
//! its answer says little about the peer. These signs of life count instead:
//!
//! * bytes that were read;
//! * bytes that the peer's system has acknowledged, while more than a ping is unacknowledged. The system acknowledges
//!   for a stopped process too, but only until the receive buffer is full. A single ping always fits: its
//!   acknowledgement is no sign.
//!
//! Without a sign for the time of [`MonitoredConnection::new`], plus the measured round trips of the line, the
//! connection fails. No sign is expected before something was sent, nor on a server while the peer has no call open:
//! an idle gRPC client answers pings late, or never. Bytes that were read since the last ping are no reason to expect
//! nothing: the transport sends no ping while it waits for the answer to one.
//!
//! Time is counted in ticks of this connection's own task. A late tick counts once: a process that did not run for a
//! while does not blame its peers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::table::ConnectionSlot;
use super::tcp_info::AckSource;
use crate::transport::peer_stats::PeerStats;

/// Number of ticks in the time without a sign of life.
const TICKS: u32 = 8;
/// Unacknowledged bytes of a few pings and requests: acknowledgements count above this.
const MIN_UNACKNOWLEDGED: u64 = 16 << 10;
/// Maximum of the round trips that extend the timeout, in multiples of the timeout.
const MAX_ROUND_TRIP_FACTOR: u32 = 10;

/// A connection that fails once its peer is gone.
pub(crate) struct MonitoredConnection<S> {
    pub(super) inner: S,
    watch: LivenessMonitor,
}

struct LivenessMonitor {
    heartbeat: Duration,
    /// Slot in the connection table, on a server.
    slot: Option<Arc<ConnectionSlot>>,
    /// Statistics of the peer, on a client.
    peer_stats: Option<Arc<PeerStats>>,
    tick: Pin<Box<Sleep>>,
    /// `true` if a tick is scheduled.
    ticks: bool,
    /// Waker for the next tick.
    waker: Option<Waker>,
    /// `true` if bytes were read since the last tick.
    read: bool,
    /// `true` if the send buffer is full.
    full: bool,
    written: u64,
    acknowledged: u64,
    /// Number of ticks without a sign of life.
    silent: u32,
}

impl<S: AckSource> MonitoredConnection<S> {
    /// Monitors a connection: `heartbeat` is the time without a sign of life, `slot` its slot on a server.
    pub(crate) fn new(
        inner: S,
        heartbeat: Duration,
        slot: Option<Arc<ConnectionSlot>>,
    ) -> MonitoredConnection<S> {
        MonitoredConnection {
            inner,
            watch: LivenessMonitor {
                heartbeat,
                slot,
                peer_stats: None,
                tick: Box::pin(sleep(heartbeat / TICKS)),
                ticks: false,
                waker: None,
                read: false,
                full: false,
                written: 0,
                acknowledged: 0,
                silent: 0,
            },
        }
    }

    /// Sets the statistics of the peer that this connection was made to.
    pub(crate) fn to(mut self, peer_stats: Arc<PeerStats>) -> MonitoredConnection<S> {
        self.watch.peer_stats = Some(peer_stats);
        self
    }
}

impl LivenessMonitor {
    /// Returns the statistics of the peer, if it is known.
    fn peer_stats(&self) -> Option<&PeerStats> {
        let own = self.peer_stats.as_deref();
        own.or_else(|| self.slot.as_ref()?.peer_stats())
    }

    /// Notes that the peer is gone.
    fn note_peer_gone(&self, why: &str) {
        if let Some(slot) = &self.slot {
            slot.note_closed(why);
        }
    }

    /// Returns an error if the server ends the connection.
    fn check_open(&self) -> io::Result<()> {
        self.slot.as_ref().map_or(Ok(()), |s| s.check_open())
    }

    /// Notes bytes that were read: they may be a call.
    fn note_read(&mut self, bytes: usize, cx: &mut Context<'_>) {
        if bytes > 0 {
            self.read = true;
            if let Some(peer_stats) = self.peer_stats() {
                peer_stats.received.fetch_add(bytes as u64, Relaxed);
            }
            self.start_ticks(cx);
        }
    }

    /// Notes bytes that were written.
    fn note_written(&mut self, bytes: usize, cx: &mut Context<'_>) {
        self.written += bytes as u64;
        if let Some(peer_stats) = self.peer_stats() {
            peer_stats.sent.fetch_add(bytes as u64, Relaxed);
        }
        self.full = false;
        self.start_ticks(cx);
    }

    /// Starts the ticks.
    fn start_ticks(&mut self, cx: &mut Context<'_>) {
        if !self.ticks {
            (self.ticks, self.silent) = (true, 0);
            self.next_tick(cx);
        }
    }

    fn next_tick(&mut self, cx: &mut Context<'_>) {
        let at = Instant::now() + self.heartbeat / TICKS;
        self.tick.as_mut().reset(at);
        self.register_waker(cx);
    }

    /// Registers this task's waker for the next tick, and for the end of the connection by the server.
    fn register_waker(&mut self, cx: &mut Context<'_>) {
        if let Some(slot) = &self.slot {
            slot.register_waker(cx.waker());
        }
        self.waker = Some(cx.waker().clone());
        // Polled only to register the waker; the result is checked below.
        let _ = self.tick.as_mut().poll(cx);
    }

    /// Checks, when a read or a write is pending, if the peer is without a sign of life for too long.
    fn check_idle(&mut self, of: &impl AckSource, cx: &mut Context<'_>) -> io::Result<()> {
        if self.ticks && self.tick.is_elapsed() {
            self.count_tick(of)?;
            match self.expects_sign_of_life() {
                true => self.next_tick(cx),
                false => self.ticks = false,
            }
        }
        let known = self.waker.as_ref();
        if !known.is_some_and(|w| w.will_wake(cx.waker())) {
            self.register_waker(cx);
        }
        self.check_open()
    }

    /// `true` if a sign of life is expected.
    fn expects_sign_of_life(&self) -> bool {
        self.full || self.slot.as_ref().is_none_or(|s| s.has_calls())
    }

    /// Counts a tick.
    fn count_tick(&mut self, of: &impl AckSource) -> io::Result<()> {
        let read = std::mem::take(&mut self.read);
        if read && let Some(peer_stats) = self.peer_stats() {
            peer_stats.note_received();
        }
        let acknowledged = of.acknowledged();
        let moved = acknowledged.is_some_and(|a| {
            let moved = a.bytes > self.acknowledged;
            self.acknowledged = a.bytes;
            moved && self.written.saturating_sub(a.bytes) > MIN_UNACKNOWLEDGED
        });
        if read || moved || !self.expects_sign_of_life() {
            self.silent = 0;
            return Ok(());
        }
        self.silent += 1;
        let round_trip = acknowledged.map_or(Duration::ZERO, |a| a.round_trip);
        let timeout = self.heartbeat + (2 * round_trip).min(MAX_ROUND_TRIP_FACTOR * self.heartbeat);
        let tick = self.heartbeat / TICKS;
        if tick * self.silent + tick / 2 < timeout {
            return Ok(());
        }
        let text = format!("no bytes for {:.1} s", timeout.as_secs_f64());
        self.note_peer_gone(&text);
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    }
}

impl<S: AsyncRead + AckSource + Unpin> AsyncRead for MonitoredConnection<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let MonitoredConnection { inner, watch } = self.get_mut();
        let (before, room) = (buf.filled().len(), buf.remaining());
        // Received bytes are read before the peer can time out.
        match Pin::new(&mut *inner).poll_read(cx, buf) {
            Poll::Ready(done) => {
                let bytes = buf.filled().len() - before;
                watch.note_read(bytes, cx);
                match &done {
                    Err(e) => watch.note_peer_gone(&e.to_string()),
                    Ok(()) if bytes == 0 && room > 0 => {
                        watch.note_peer_gone("the connection has ended")
                    }
                    Ok(()) => {}
                }
                watch.check_open()?;
                Poll::Ready(done)
            }
            Poll::Pending => {
                watch.check_idle(inner, cx)?;
                Poll::Pending
            }
        }
    }
}

impl<S: AsyncWrite + AckSource + Unpin> MonitoredConnection<S> {
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        done: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let MonitoredConnection { inner, watch } = self;
        let Poll::Ready(done) = done else {
            watch.full = true;
            watch.start_ticks(cx);
            watch.check_idle(inner, cx)?;
            return Poll::Pending;
        };
        match &done {
            Ok(bytes) => watch.note_written(*bytes, cx),
            Err(e) => watch.note_peer_gone(&e.to_string()),
        }
        Poll::Ready(done)
    }
}

impl<S: AsyncWrite + AckSource + Unpin> AsyncWrite for MonitoredConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.written(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.written(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
