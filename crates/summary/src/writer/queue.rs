//! The queue between the callers of a writer and its file: bytes that the writer's own thread
//! writes. A caller only appends to a buffer, so that no step waits for a disk.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use thalweg_tensor::sync::Unpoisoned;

/// The number of pending bytes that wakes the thread early. A lower one would wake it for each
/// event.
const WAKE_BYTES: usize = 64 << 10;

/// The reason why nothing more can be written.
#[derive(Clone, Debug)]
pub(super) enum QueueError {
    /// The writer was closed.
    Closed,
    /// A write failed, with the system's message.
    Failed(String),
}

/// Bytes on their way to a file.
pub(super) struct EventQueue {
    state: Mutex<QueueState>,
    /// Wakes the thread: there are bytes to write.
    wake: Condvar,
    /// Wakes callers: a write is done, or has failed.
    done: Condvar,
    /// The limit of pending bytes.
    limit: usize,
    /// The number of pending bytes that wakes the thread: at most the limit, or it would sleep
    /// while callers wait.
    wake_bytes: usize,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<u8>,
    /// The number of flushes requested, and of those done.
    asked: u64,
    flushed: u64,
    stopped: Option<QueueError>,
}

impl EventQueue {
    pub(super) fn new(limit: usize) -> EventQueue {
        EventQueue {
            state: Mutex::default(),
            wake: Condvar::new(),
            done: Condvar::new(),
            limit,
            wake_bytes: WAKE_BYTES.min(limit),
        }
    }

    /// Locks the state. It stays consistent after a panic elsewhere: each change is a single one.
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unpoisoned()
    }

    /// Lets `add` append bytes. Waits only while more bytes than the limit are pending.
    pub(super) fn push(&self, add: impl FnOnce(&mut Vec<u8>)) -> Result<(), QueueError> {
        let mut state = self.state();
        while state.stopped.is_none() && state.waiting.len() > self.limit {
            state = wait(&self.done, state);
        }
        if let Some(stopped) = &state.stopped {
            return Err(stopped.clone());
        }
        let before = state.waiting.len();
        add(&mut state.waiting);
        if before <= self.wake_bytes && state.waiting.len() > self.wake_bytes {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Waits until all bytes pushed before have been passed to the system.
    pub(super) fn flush(&self) -> Result<(), QueueError> {
        let mut state = self.state();
        if let Some(stopped) = &state.stopped {
            return Err(stopped.clone());
        }
        state.asked += 1;
        let own = state.asked;
        self.wake.notify_one();
        while state.flushed < own {
            if let Some(QueueError::Failed(reason)) = &state.stopped {
                return Err(QueueError::Failed(reason.clone()));
            }
            state = wait(&self.done, state);
        }
        Ok(())
    }

    /// Stops taking bytes. The thread writes the pending ones, and ends.
    pub(super) fn close(&self) {
        let mut state = self.state();
        if state.stopped.is_none() {
            state.stopped = Some(QueueError::Closed);
        }
        self.wake.notify_one();
    }

    /// The failure of the file, if there was one.
    pub(super) fn failure(&self) -> Option<QueueError> {
        let failed = |stopped: &QueueError| matches!(stopped, QueueError::Failed(_));
        self.state().stopped.clone().filter(failed)
    }

    /// The thread: writes the pending bytes when they are many, for a flush, and every `every`.
    pub(super) fn write_to(&self, mut file: impl Write, every: Duration) {
        let mut own = Vec::new();
        loop {
            let (asked, last) = self.take(&mut own, every);
            if let Err(error) = write(&mut file, &own) {
                let mut state = self.state();
                state.stopped = Some(QueueError::Failed(error.to_string()));
                // They will not be written.
                state.waiting = Vec::new();
                self.done.notify_all();
                return;
            }
            // The memory of a large image is freed.
            own.clear();
            own.shrink_to(16 * WAKE_BYTES);
            self.state().flushed = asked;
            self.done.notify_all();
            if last {
                return;
            }
        }
    }

    /// Waits for bytes, and swaps them with the empty `own`. Returns the number of flushes that
    /// they complete, and `true` if no more will come.
    fn take(&self, own: &mut Vec<u8>, every: Duration) -> (u64, bool) {
        let mut state = self.state();
        loop {
            let urgent = state.asked > state.flushed || state.waiting.len() > self.wake_bytes;
            let last = state.stopped.is_some();
            if urgent || last {
                break;
            }
            let (woken, timeout) = self.wake.wait_timeout(state, every).unpoisoned();
            state = woken;
            if timeout.timed_out() && !state.waiting.is_empty() {
                break;
            }
        }
        std::mem::swap(&mut state.waiting, own);
        (state.asked, state.stopped.is_some())
    }
}

fn write(file: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.flush()
}

fn wait<'a>(done: &Condvar, state: MutexGuard<'a, QueueState>) -> MutexGuard<'a, QueueState> {
    done.wait(state).unpoisoned()
}
