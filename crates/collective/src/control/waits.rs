//! Waits of a rank for others: timeouts, and reports of stalls.

use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_tensor::sync::Unpoisoned;

use super::client::{Control, ControlShared, ControlState, rendezvous};
use crate::error::{CollectiveError, Result};

/// Interval at which a wait polls.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Control {
    /// Checks that a wait within a collective may go on. A long wait is reported to the user, through the coordinator.
    ///
    /// # Errors
    /// The job has ended; [`CollectiveError::Late`].
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
                .report_stall(&mut state, rank, &name.unwrap_or_default(), waited);
        }
        Ok(())
    }

    /// Checks that a wait for GPUs of other ranks may go on. The missing rank is not known, so after a long wait all of the
    /// others are asked for their activity. Those that wait too are not reported.
    ///
    /// # Errors
    /// The job has ended; the wait takes too long.
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
                    self.shared.report_stall(&mut state, other, what, waited);
                }
            }
        }
        Ok(())
    }

    /// Checks that a wait until all ranks are ready for a collective may go on.
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

    /// Waits until `poll` returns a value from the state.
    ///
    /// # Errors
    /// The job has ended; [`CollectiveError::Late`].
    pub(super) fn wait<T>(
        &self,
        what: &str,
        timeout: Option<Duration>,
        mut poll: impl FnMut(&mut ControlState) -> Option<T>,
    ) -> Result<T> {
        let began = Instant::now();
        let mut state = self.shared.state();
        loop {
            if let Some(found) = poll(&mut state) {
                return Ok(found);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let waited = began.elapsed();
            let missing = state.missing.get(what).and_then(|m| m.first().copied());
            if timeout.is_some_and(|timeout| waited >= timeout) {
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
                self.shared.report_stall(&mut state, rank, what, waited);
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, POLL_INTERVAL)
                .unpoisoned()
                .0;
        }
    }
}

impl ControlShared {
    /// Reports a missing rank to the coordinator, once for each collective and rank.
    fn report_stall(&self, state: &mut ControlState, rank: usize, name: &str, waited: Duration) {
        let reported = state.stalled.as_ref();
        if reported.is_none_or(|(late, of)| (*late, of.as_str()) != (rank, name)) {
            state.stalled = Some((rank, name.to_owned()));
            let seconds = waited.as_secs();
            // A lost coordinator is noticed by reads.
            let _ = self
                .writer
                .write(&json!({"stalled": rank, "in": name, "seconds": seconds}));
        }
    }
}
