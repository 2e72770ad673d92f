//! Resources that activities occupy.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::ids::ActivityId;

/// State of a resource.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) name: String,
    pub(super) kind: ResourceKind,
    /// Seconds of work that it has done or begun.
    pub(super) busy: f64,
}

#[derive(Clone, Debug)]
pub(super) enum ResourceKind {
    /// One activity at a time, first come, first served.
    Serial {
        /// End of all that it was given.
        free: f64,
        /// Activity that it was given last.
        last: Option<ActivityId>,
    },
    Shared(Sharing),
}

/// Processor sharing: all activities run at once, at equal rates.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    /// Number of activities that run at full speed together.
    room: f64,
    /// Seconds that an activity has been given since the beginning, if it was there all the time.
    given: f64,
    /// Time up to which `given` counts.
    at: f64,
    running: BinaryHeap<Running>,
    /// Number of the next end that counts: an arrival changes the time of the end, so the older event is void.
    pub(super) generation: u64,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    /// Value of `given` at which it is done.
    until: f64,
    activity: ActivityId,
}

impl PartialEq for Running {
    fn eq(&self, other: &Running) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Running {}

impl PartialOrd for Running {
    fn partial_cmp(&self, other: &Running) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The least `until` is the greatest, for [`BinaryHeap`].
impl Ord for Running {
    fn cmp(&self, other: &Running) -> Ordering {
        let by_time = other.until.total_cmp(&self.until);
        by_time.then(other.activity.cmp(&self.activity))
    }
}

impl Sharing {
    pub(super) fn new(room: f64) -> Sharing {
        Sharing {
            room,
            given: 0.0,
            at: 0.0,
            running: BinaryHeap::new(),
            generation: 0,
        }
    }

    fn rate(&self) -> f64 {
        (self.room / self.running.len() as f64).min(1.0)
    }

    fn advance(&mut self, now: f64) {
        if !self.running.is_empty() {
            self.given += (now - self.at) * self.rate();
        }
        self.at = now;
    }

    /// Adds an activity of so many seconds.
    pub(super) fn add(&mut self, now: f64, activity: ActivityId, seconds: f64) {
        self.advance(now);
        self.running.push(Running {
            until: self.given + seconds,
            activity,
        });
    }

    /// Removes the activity that is done now.
    pub(super) fn remove(&mut self, now: f64) -> Option<ActivityId> {
        self.advance(now);
        let done = self.running.pop()?;
        // Rounding must not leave an activity that has a little to go.
        self.given = self.given.max(done.until);
        Some(done.activity)
    }

    /// Time of the next end, which makes events before it void.
    pub(super) fn next_end(&mut self) -> Option<f64> {
        self.generation += 1;
        let next = self.running.peek()?;
        Some(self.at + (next.until - self.given).max(0.0) / self.rate())
    }
}
