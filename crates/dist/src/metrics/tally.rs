//! Named counters, with rate-limited log lines for events that callers can cause at will.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use thalweg_tensor::sync::Unpoisoned;

use crate::limits::settings::counted_limits;

/// Minimum interval between two log lines of one name.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Reasons for the refusal of callers.
const CALLERS: [&str; 3] = ["certificate", "system", "token"];

/// Counters by name, off the hot path. Names are constants of this program, never sent by a caller.
#[derive(Default)]
pub(crate) struct NamedCounters(Mutex<BTreeMap<&'static str, CounterState>>);

#[derive(Default)]
struct CounterState {
    all: u64,
    /// Number of events that were not logged.
    untold: u64,
    told: Option<Instant>,
}

impl NamedCounters {
    /// Returns counters with these names.
    fn of(names: impl IntoIterator<Item = &'static str>) -> NamedCounters {
        let all = names.into_iter().map(|n| (n, CounterState::default()));
        NamedCounters(Mutex::new(all.collect()))
    }

    /// Counts one event. If it may be logged, returns the number of events that were not logged since the last line:
    /// a caller that repeats an event cannot fill a disk.
    pub(crate) fn add(&self, name: &'static str) -> Option<u64> {
        self.add_at(name, Instant::now())
    }

    fn add_at(&self, name: &'static str, now: Instant) -> Option<u64> {
        let mut all = self.0.lock().unpoisoned();
        let count = all.entry(name).or_default();
        count.all += 1;
        if count
            .told
            .is_some_and(|told| now.duration_since(told) < LOG_INTERVAL)
        {
            count.untold += 1;
            return None;
        }
        count.told = Some(now);
        Some(std::mem::take(&mut count.untold))
    }

    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        let all = self.0.lock().unpoisoned();
        all.iter().map(|(n, c)| ((*n).to_owned(), c.all)).collect()
    }
}

/// Refusals of a server: limits that were met, and callers that were refused. Both are logged.
pub(crate) struct Refusals {
    pub(crate) limits: NamedCounters,
    pub(crate) callers: NamedCounters,
}

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals {
            limits: NamedCounters::of(counted_limits()),
            callers: NamedCounters::of(CALLERS),
        }
    }
}

impl Refusals {
    /// Counts a limit that was met.
    pub(crate) fn count_limit(&self, limit: &'static str, why: &dyn Display) {
        if let Some(untold) = self.limits.add(limit) {
            tracing::warn!(limit, untold, why = %why, "limit met");
        }
    }

    /// Counts a connection that was closed because of a limit.
    pub(crate) fn count_closed(&self, limit: &'static str, address: SocketAddr, why: &str) {
        if let Some(untold) = self.limits.add(limit) {
            tracing::info!(limit, untold, %address, "a connection is closed: {why}");
        }
    }

    /// Counts a caller that was refused.
    pub(crate) fn count_caller(
        &self,
        cause: &'static str,
        address: Option<SocketAddr>,
        why: &dyn Display,
    ) {
        if let Some(untold) = self.callers.add(cause) {
            let address = address.map(tracing::field::display);
            tracing::warn!(cause, untold, address, why = %why, "caller refused");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_rate_limited_and_count_those_left_out() {
        let (tally, began) = (NamedCounters::default(), Instant::now());
        let at = |millis| tally.add_at("token", began + Duration::from_millis(millis));
        assert_eq!(at(0), Some(0));
        for millis in 1..1000 {
            assert_eq!(at(millis), None);
        }
        assert_eq!(at(1000), Some(999));
        assert_eq!(at(1001), None);
        // Another name is logged independently.
        assert_eq!(tally.add_at("certificate", began), Some(0));
        let all = [("certificate".to_owned(), 1), ("token".to_owned(), 1002)];
        assert_eq!(tally.all(), all);
    }
}
