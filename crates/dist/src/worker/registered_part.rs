//! A part of a step that a task keeps for a master.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thalweg_graph::Fact;
use thalweg_session::PartPlan;

use super::step::Routes;
use crate::transport::peers::Peer;

/// A part that is ready to run.
pub(crate) struct RegisteredPart {
    pub(super) plan: Arc<PartPlan>,
    /// What is known of its feeds, in their order.
    pub(crate) feeds: Vec<Fact>,
    pub(super) routes: Arc<Routes>,
    /// The tasks that it receives from.
    pub(super) sources: Vec<(u32, Arc<Peer>)>,
    /// The number that the master gave this task.
    pub(super) task: u32,
    /// Whether a step of it may take any time.
    pub(super) long: bool,
    /// How long its last step took, in microseconds.
    pub(super) last: AtomicU64,
}

/// What is shorter runs where it came in: to hand it to another thread would take as long.
const MAX_INLINE_TIME: Duration = Duration::from_micros(50);

impl RegisteredPart {
    /// Whether it may run on a thread of the network: its steps all take the same time, and the last was
    /// short.
    pub(super) fn is_short(&self) -> bool {
        let last = Duration::from_micros(self.last.load(Ordering::Relaxed));
        last < MAX_INLINE_TIME && !self.long
    }

    /// Whether it waits for nobody, and gives nothing.
    pub(super) fn is_alone(&self) -> bool {
        let crosses = !self.routes.sends.is_empty() || !self.routes.receives.is_empty();
        !crosses && !self.plan.waits()
    }

    pub(super) fn took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.last.store(micros, Ordering::Relaxed);
    }
}
