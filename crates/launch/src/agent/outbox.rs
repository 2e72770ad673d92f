//! Messages on their way to the launcher.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::protocol::{Answer, write};

/// Maximum number of messages that wait: more than lines of the window make.
const MAX_WAITING: usize = 1 << 16;
/// Time for the last messages.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Queue of messages, which a thread writes. Sending blocks nobody.
#[derive(Clone)]
pub(super) struct Outbox {
    queue: Arc<Mutex<Option<Sender<Answer>>>>,
    state: Arc<OutboxState>,
}

#[derive(Default)]
struct OutboxState {
    waiting: AtomicUsize,
    /// `true` once the launcher reads no more.
    broken: AtomicBool,
    /// `true` once all messages are written.
    done: AtomicBool,
}

impl Outbox {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// The system has no thread.
    pub(super) fn start(mut output: impl Write + Send + 'static) -> Result<Outbox> {
        let (sender, messages) = channel::<Answer>();
        let state = Arc::<OutboxState>::default();
        let shared = state.clone();
        std::thread::Builder::new().spawn(move || {
            for message in messages {
                if write(&mut output, &message).is_err() {
                    shared.broken.store(true, Ordering::Relaxed);
                    break;
                }
                shared.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            shared.done.store(true, Ordering::Relaxed);
        })?;
        Ok(Outbox {
            queue: Arc::new(Mutex::new(Some(sender))),
            state,
        })
    }

    /// Queues a message.
    pub(super) fn send(&self, message: Answer) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*queue {
            self.state.waiting.fetch_add(1, Ordering::Relaxed);
            // An error is a launcher that reads no more, which the agent sees.
            let _ = queue.send(message);
        }
    }

    /// `true` if the launcher does not read.
    pub(super) fn is_stuck(&self) -> bool {
        let waiting = self.state.waiting.load(Ordering::Relaxed);
        self.state.broken.load(Ordering::Relaxed) || waiting > MAX_WAITING
    }

    /// Waits until the last message is written, or for a time.
    pub(super) fn end(&self) {
        drop(
            self.queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let ended = Instant::now();
        while !self.state.done.load(Ordering::Relaxed) && ended.elapsed() < END_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
