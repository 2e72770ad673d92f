//! Links between threads of one process, for tests and for programs with several ranks in a process.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use thalweg_tensor::sync::Unpoisoned;

use super::{Incoming, Links, Outgoing};
use crate::aligned::Aligned;
use crate::error::{CollectiveError, Result};

/// Links of a rank that is a thread.
pub struct ThreadLinks {
    rank: usize,
    /// Mailboxes by rank.
    boxes: Arc<[Mailbox]>,
}

/// Messages for a rank.
#[derive(Default)]
struct Mailbox {
    /// Messages by sender, with their tags.
    messages: Mutex<HashMap<usize, VecDeque<(u64, Aligned)>>>,
    changed: Condvar,
    /// `true` once the rank has ended.
    gone: AtomicBool,
}

impl Mailbox {
    fn messages(&self) -> MutexGuard<'_, HashMap<usize, VecDeque<(u64, Aligned)>>> {
        self.messages.lock().unpoisoned()
    }
}

impl ThreadLinks {
    /// Links of so many ranks, by rank.
    ///
    /// ```
    /// use thalweg_collective::links::threads::ThreadLinks;
    /// use thalweg_collective::links::{Incoming, Links, Outgoing, Sink};
    ///
    /// let mut ranks = ThreadLinks::all(2).into_iter();
    /// let (mut zero, mut one) = (ranks.next().unwrap(), ranks.next().unwrap());
    /// let send = Outgoing { to: 1, tag: 7, bytes: &[1, 2] };
    /// zero.exchange(Some(send), None)?;
    /// let mut bytes = [0; 2];
    /// one.exchange(None, Some(Incoming { from: 0, tag: 7, sink: Sink::store(&mut bytes) }))?;
    /// assert_eq!(bytes, [1, 2]);
    /// # Ok::<(), thalweg_collective::CollectiveError>(())
    /// ```
    pub fn all(size: usize) -> Vec<ThreadLinks> {
        let boxes: Arc<[Mailbox]> = (0..size).map(|_| Mailbox::default()).collect();
        let of = |rank| ThreadLinks {
            rank,
            boxes: boxes.clone(),
        };
        (0..size).map(of).collect()
    }

    /// Next message of a rank, and its tag.
    fn next(&self, from: usize) -> Result<(u64, Aligned)> {
        let own = &self.boxes[self.rank];
        let mut messages = own.messages();
        loop {
            // Read before the queue: a message that was sent before the end counts.
            let gone = self.boxes[from].gone.load(Ordering::Acquire);
            if let Some(queue) = messages.get_mut(&from)
                && let Some(message) = queue.pop_front()
            {
                if queue.is_empty() {
                    messages.remove(&from);
                }
                return Ok(message);
            }
            if gone {
                return Err(CollectiveError::lost(from, "its thread has ended"));
            }
            messages = own.changed.wait(messages).unpoisoned();
        }
    }
}

impl Links for ThreadLinks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.boxes.len()
    }

    fn exchange(
        &mut self,
        send: Option<Outgoing<'_>>,
        receive: Option<Incoming<'_>>,
    ) -> Result<()> {
        if let Some(send) = send {
            let to = &self.boxes[send.to];
            if to.gone.load(Ordering::Acquire) {
                return Err(CollectiveError::lost(send.to, "its thread has ended"));
            }
            let message = (send.tag, Aligned::of(send.bytes));
            let mut messages = to.messages();
            messages.entry(self.rank).or_default().push_back(message);
            drop(messages);
            to.changed.notify_one();
        }
        let Some(mut receive) = receive else {
            return Ok(());
        };
        let (tag, bytes) = self.next(receive.from)?;
        let bytes = bytes.bytes();
        super::check_message(
            receive.from,
            (tag, bytes.len()),
            (receive.tag, receive.sink.len()),
        )?;
        receive.sink.take(0, bytes);
        Ok(())
    }
}

impl Drop for ThreadLinks {
    fn drop(&mut self) {
        self.boxes[self.rank].gone.store(true, Ordering::Release);
        // The lock closes the window between the check and the wait of a rank.
        for mailbox in self.boxes.iter() {
            drop(mailbox.messages());
            mailbox.changed.notify_one();
        }
    }
}
