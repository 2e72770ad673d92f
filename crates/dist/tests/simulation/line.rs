//! Slow lines with large buffers: sent bytes wait behind all earlier ones.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use super::network::Held;
use crate::transport::connections::tcp_info::AckInfo;

/// Number of bytes of one piece.
const PIECE: usize = 1 << 10;

/// Rate and capacity of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowLine {
    /// Bytes per second.
    pub(super) rate: u64,
    /// Maximum number of bytes in flight.
    pub(super) holds: usize,
}

/// Bytes that one connection has sent over its line.
pub(super) struct Busy {
    line: SlowLine,
    state: Mutex<LineState>,
    more: Notify,
}

#[derive(Default)]
struct LineState {
    queue: VecDeque<u8>,
    arrived: u64,
    writer: Option<Waker>,
    failed: Option<io::ErrorKind>,
    ended: bool,
}

impl Busy {
    /// Starts the line of a connection.
    pub(super) fn start(line: SlowLine, to: &Arc<Held>) -> Arc<Busy> {
        let busy = Arc::new(Busy {
            line,
            state: Mutex::default(),
            more: Notify::new(),
        });
        tokio::spawn(carry(busy.clone(), Arc::downgrade(to)));
        busy
    }

    fn state(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap()
    }

    /// Stops the line.
    pub(super) fn end(&self) {
        self.state().ended = true;
        self.more.notify_one();
    }

    /// Returns the bytes that have arrived.
    pub(super) fn acknowledged(&self) -> AckInfo {
        AckInfo {
            bytes: self.state().arrived,
            round_trip: Duration::ZERO,
        }
    }

    pub(super) fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        if let Some(failed) = state.failed {
            return Poll::Ready(Err(failed.into()));
        }
        let room = self
            .line
            .holds
            .saturating_sub(state.queue.len())
            .min(buf.len());
        if room == 0 {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.queue.extend(&buf[..room]);
        self.more.notify_one();
        Poll::Ready(Ok(room))
    }
}

/// Carries bytes to their connection, one piece after the other.
async fn carry(busy: Arc<Busy>, to: Weak<Held>) {
    loop {
        let piece: Vec<u8> = {
            let state = busy.state();
            if state.ended {
                return;
            }
            state.queue.iter().take(PIECE).copied().collect()
        };
        if piece.is_empty() {
            busy.more.notified().await;
            continue;
        }
        let time = piece.len() as f64 / busy.line.rate as f64;
        tokio::time::sleep(Duration::from_secs_f64(time)).await;
        let sent = write(&to, &piece).await;
        let mut state = busy.state();
        state.queue.drain(..piece.len());
        state.arrived += piece.len() as u64;
        if let Err(e) = sent {
            state.failed = Some(e.kind());
            state.ended = true;
        }
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
    }
}

async fn write(to: &Weak<Held>, mut piece: &[u8]) -> io::Result<()> {
    while !piece.is_empty() {
        let gone = std::future::poll_fn(|cx| {
            let held = to.upgrade().ok_or(io::ErrorKind::NotConnected)?;
            match &mut *held.lock().unwrap() {
                Some(stream) => Pin::new(stream).poll_write(cx, piece),
                None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            }
        });
        piece = &piece[gone.await?..];
    }
    Ok(())
}
