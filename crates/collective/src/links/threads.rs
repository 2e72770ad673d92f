//! Ranks that are threads of one process, for tests and for programs with several ranks in a process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Incoming, Links, Outgoing};
use crate::aligned::Aligned;
use crate::error::{CollectiveError, Result};

/// The links of one rank that is a thread.
pub struct ThreadLinks {
    rank: usize,
    shared: Arc<Shared>,
}

struct Shared {
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// By sender and receiver: messages with their tags.
    messages: Vec<VecDeque<(u64, Aligned)>>,
    /// By rank: whether it has gone.
    gone: Vec<bool>,
}

impl ThreadLinks {
    /// The links of so many ranks, by rank.
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
        let state = State {
            messages: (0..size * size).map(|_| VecDeque::new()).collect(),
            gone: vec![false; size],
        };
        let shared = Arc::new(Shared {
            size,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let of = |rank| ThreadLinks {
            rank,
            shared: shared.clone(),
        };
        (0..size).map(of).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let lock = self.shared.state.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Links for ThreadLinks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.size
    }

    fn exchange(
        &mut self,
        send: Option<Outgoing<'_>>,
        receive: Option<Incoming<'_>>,
    ) -> Result<()> {
        let size = self.shared.size;
        if let Some(send) = send {
            let mut state = self.state();
            if state.gone[send.to] {
                return Err(CollectiveError::lost(send.to, "its thread has ended"));
            }
            state.messages[self.rank * size + send.to]
                .push_back((send.tag, Aligned::of(send.bytes)));
            drop(state);
            self.shared.changed.notify_all();
        }
        let Some(mut receive) = receive else {
            return Ok(());
        };
        let (tag, bytes) = {
            let mut state = self.state();
            loop {
                if let Some(message) = state.messages[receive.from * size + self.rank].pop_front() {
                    break message;
                }
                if state.gone[receive.from] {
                    return Err(CollectiveError::lost(receive.from, "its thread has ended"));
                }
                let waited = self.shared.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
        };
        let bytes = bytes.bytes();
        super::same(
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
        let rank = self.rank;
        self.state().gone[rank] = true;
        self.shared.changed.notify_all();
    }
}
