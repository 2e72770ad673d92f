//! Counters and histograms of a server, for Prometheus.
//!
//! Counting is an addition to an atomic number. States (sessions, memory) are read at each scrape.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thalweg_device::CheckpointListener;
use tonic::Code;

use super::tally::{NamedCounters, Refusals};
use super::training::TrainingGauges;
use crate::error::{Cause, ClusterError};

/// Upper bounds of a histogram's buckets, in microseconds. The last bucket has none.
pub(crate) const BUCKET_BOUNDS: [u64; 16] = [
    20,
    50,
    100,
    200,
    500,
    1000,
    2000,
    5000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    10_000_000,
    60_000_000,
    600_000_000,
];

/// Histogram of durations.
#[derive(Default)]
pub(crate) struct Histogram {
    pub(crate) buckets: [AtomicU64; BUCKET_BOUNDS.len() + 1],
    pub(crate) micros: AtomicU64,
}

impl Histogram {
    pub(crate) fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKET_BOUNDS.partition_point(|bound| *bound < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

/// Counters of a server.
#[derive(Default)]
pub(crate) struct Counters {
    /// Durations of clients' steps that succeeded.
    pub(crate) steps: Histogram,
    /// Durations of parts of other tasks' steps that succeeded.
    pub(crate) parts: Histogram,
    pub(crate) sessions_made: AtomicU64,
    pub(crate) sessions_closed: AtomicU64,
    pub(crate) sessions_collected: AtomicU64,
    pub(crate) slow_steps: AtomicU64,
    pub(crate) slow_parts: AtomicU64,
    /// Durations of the writes of checkpoints.
    pub(crate) checkpoints: Histogram,
    pub(crate) failed_checkpoints: AtomicU64,
    /// Number of calls whose message is still arriving.
    pub(crate) messages: AtomicU64,
    /// Limits that were met, and callers that were refused.
    pub(crate) refusals: Arc<Refusals>,
    /// Failed steps, by code.
    pub(crate) failed_steps: NamedCounters,
    /// Failed parts, by cause.
    pub(crate) failed_parts: NamedCounters,
    /// Failed calls of clients, by code.
    pub(crate) failed_calls: NamedCounters,
    /// Loss and global step that the program's training loop records.
    pub(crate) training: TrainingGauges,
}

pub(crate) fn increment(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Entry of a gauge. A drop removes it.
pub(crate) struct GaugeGuard<'a>(&'a AtomicU64);

impl GaugeGuard<'_> {
    pub(crate) fn begin(count: &AtomicU64) -> GaugeGuard<'_> {
        increment(count);
        GaugeGuard(count)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    pub(crate) fn step_failed(&self, code: Code) {
        self.failed_steps.add(name(code));
    }

    pub(crate) fn part_failed(&self, cause: Cause) {
        self.failed_parts.add(cause.name());
    }

    pub(crate) fn call_failed(&self, code: Code) {
        self.failed_calls.add(name(code));
    }

    /// Counts the limit of an error, once.
    pub(crate) fn counted(&self, mut error: ClusterError) -> ClusterError {
        if let Some(limit) = error.limit.take() {
            self.refusals.count_limit(limit, &error.message);
        }
        error
    }
}

impl CheckpointListener for Counters {
    fn saved(&self, took: Duration, well: bool) {
        match well {
            true => self.checkpoints.add(took),
            false => increment(&self.failed_checkpoints),
        }
    }
}

/// Returns the name of a gRPC code.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "cancelled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_that_bounds_it() {
        for (micros, bucket) in [
            (0, 0),
            (20, 0),
            (21, 1),
            (50, 1),
            (1000, 5),
            (600_000_000, BUCKET_BOUNDS.len() - 1),
            (600_000_001, BUCKET_BOUNDS.len()),
        ] {
            let histogram = Histogram::default();
            histogram.add(Duration::from_micros(micros));
            let counts = histogram.buckets.iter().map(|b| b.load(Ordering::Relaxed));
            let found = counts.enumerate().filter(|(_, n)| *n > 0);
            assert_eq!(found.collect::<Vec<_>>(), [(bucket, 1)], "{micros}");
            assert_eq!(histogram.micros.load(Ordering::Relaxed), micros);
        }
    }

    #[test]
    fn a_gauge_counts_entries_while_they_last() {
        let gauge = AtomicU64::new(0);
        let (first, second) = (GaugeGuard::begin(&gauge), GaugeGuard::begin(&gauge));
        drop(first);
        assert_eq!(gauge.load(Ordering::Relaxed), 1);
        drop(second);
        assert_eq!(gauge.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_limit_that_an_error_has_met_is_counted_once() {
        let counters = Counters::default();
        let met = || {
            let all = counters.refusals.limits.all();
            all.into_iter().find(|(name, _)| name == "parts").unwrap().1
        };
        let error = ClusterError::limit_exceeded("parts", "too many");
        let error = counters.counted(error);
        assert_eq!((met(), error.limit), (1, None));
        counters.counted(error);
        assert_eq!(met(), 1);
    }
}
