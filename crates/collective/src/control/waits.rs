//! How long a rank waits for others, and who hears of it.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Control, Shared, State, rendezvous};
use crate::error::{CollectiveError, Result};

/// How often a wait looks around.
const LOOK: Duration = Duration::from_millis(5);

impl Control {
    /// Whether a wait within a collective may go on. One that takes long is told to people, through the coordinator.
    ///
    /// # Errors
    /// What ended the job; [`CollectiveError::Late`].
    #[cold]
    pub(crate) fn may_wait(&self, rank: usize, what: &str, waited: Duration) -> Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if self.timeouts.stall_end.is_some_and(|end| waited >= end) {
            return Err(CollectiveError::Late {
                rank,
                what: what.to_owned(),
                waited,
            });
        }
        if self
            .timeouts
            .stall_warning
            .is_some_and(|warn| waited >= warn)
        {
            let mut state = self.shared.state();
            let name = state.runs.as_ref().map(|r| r.0.clone());
            self.shared
                .stalls(&mut state, rank, &name.unwrap_or_default(), waited);
        }
        Ok(())
    }

    /// Whether a wait for GPUs of others may go on: nobody sees which of them does not come. Where it takes long, all of these
    /// others are asked what they do; people are not told of those that wait too.
    ///
    /// # Errors
    /// What ended the job; the wait takes too long.
    pub(crate) fn may_wait_for_gpus(
        &self,
        others: impl FnOnce() -> Vec<usize>,
        what: &str,
        waited: Duration,
    ) -> Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if self.timeouts.stall_end.is_some_and(|end| waited >= end) {
            let seconds = waited.as_secs();
            let why = format!("'{what}' has waited for the GPUs of other ranks for {seconds} s");
            return Err(CollectiveError::Ended(why));
        }
        if self
            .timeouts
            .stall_warning
            .is_some_and(|warn| waited >= warn)
        {
            let mut state = self.shared.state();
            if state.stalled.is_none() {
                for other in others() {
                    self.shared.stalls(&mut state, other, what, waited);
                }
            }
        }
        Ok(())
    }

    /// Whether to wait any longer until all ranks are ready for a collective.
    ///
    /// # Errors
    /// As [`Control::may_wait`].
    pub(crate) fn may_wait_until_ready(&self, key: &str, waited: Duration) -> Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let missing = self.shared.state().missing.get(key).cloned();
        match missing.iter().flatten().next() {
            Some(&rank) => self.may_wait(rank, "until all are ready", waited),
            None => Ok(()),
        }
    }

    /// Waits until this finds what it looks for in what the coordinator has said.
    ///
    /// # Errors
    /// What ended the job; [`CollectiveError::Late`].
    pub(super) fn wait<T>(
        &self,
        what: &str,
        most: Option<Duration>,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T> {
        let began = Instant::now();
        let mut state = self.shared.state();
        loop {
            if let Some(found) = look(&mut state) {
                return Ok(found);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let waited = began.elapsed();
            let missing = state.missing.get(what).and_then(|m| m.first().copied());
            if most.is_some_and(|most| waited >= most) {
                return Err(match missing {
                    Some(rank) => CollectiveError::Late {
                        rank,
                        what: what.to_owned(),
                        waited,
                    },
                    None => rendezvous(format!("{what}: no answer for {waited:?}")),
                });
            }
            if let (Some(rank), true) = (
                missing,
                self.timeouts.stall_warning.is_some_and(|w| waited >= w),
            ) {
                self.shared.stalls(&mut state, rank, what, waited);
            }
            let next = self.shared.changed.wait_timeout(state, LOOK);
            state = next.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    /// Tells the coordinator, once for each collective and rank, that a rank does not come.
    fn stalls(&self, state: &mut State, rank: usize, name: &str, waited: Duration) {
        let told = state.stalled.as_ref();
        if told.is_none_or(|(late, of)| (*late, of.as_str()) != (rank, name)) {
            state.stalled = Some((rank, name.to_owned()));
            let seconds = waited.as_secs();
            // That the coordinator is gone is noticed by reading.
            let _ = self
                .writer
                .write(&json!({"stalled": rank, "in": name, "seconds": seconds}));
        }
    }
}
