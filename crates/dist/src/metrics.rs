//! What a server counts, as Prometheus reads it.
//!
//! Counting is an addition to an atomic number. What is a state (sessions, memory) is asked for when it is read.

mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tonic::Code;

pub(crate) use text::Numbers;

/// The upper bounds of the buckets of times, in microseconds; the last one has none.
const BOUNDS: [u64; 16] = [
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

/// How many there are of each time.
#[derive(Default)]
pub(crate) struct Times {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Times {
    pub(crate) fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

/// What a server has done.
#[derive(Default)]
pub(crate) struct Counts {
    /// Steps of clients that went well, and how long they took.
    pub(crate) steps: Times,
    /// Parts of other tasks' steps that went well, and how long they took.
    pub(crate) parts: Times,
    pub(crate) sessions_made: AtomicU64,
    pub(crate) sessions_closed: AtomicU64,
    pub(crate) sessions_collected: AtomicU64,
    pub(crate) slow_steps: AtomicU64,
    /// Steps that failed, by code.
    failed_steps: Tally,
    /// Parts that failed, by cause.
    failed_parts: Tally,
    /// Calls of clients that failed, by code.
    failed_calls: Tally,
    /// Limits that were met.
    limits: Tally,
}

/// Counts by name, off the hot path.
#[derive(Default)]
pub(crate) struct Tally(Mutex<BTreeMap<String, u64>>);

impl Tally {
    pub(crate) fn add(&self, name: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                all.insert(name.to_owned(), 1);
            }
        }
    }

    fn all(&self) -> Vec<(String, u64)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(n, c)| (n.clone(), *c)).collect()
    }
}

pub(crate) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Counts {
    pub(crate) fn step_failed(&self, code: Code) {
        self.failed_steps.add(name(code));
    }

    pub(crate) fn part_failed(&self, cause: crate::Cause) {
        self.failed_parts.add(&format!("{cause:?}").to_lowercase());
    }

    pub(crate) fn call_failed(&self, status: &crate::Status) {
        self.failed_calls.add(name(status.code));
        if let Some(limit) = status.limit {
            self.limits.add(limit);
        }
    }
}

/// A code as gRPC writes it.
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
