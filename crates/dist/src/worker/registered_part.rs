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
    /// Facts of its feeds, in order.
    pub(crate) feeds: Vec<Fact>,
    pub(super) routes: Arc<Routes>,
    /// Tasks that it receives from.
    pub(super) sources: Vec<(u32, Arc<Peer>)>,
    /// Number of this task in the master's plan.
    pub(super) task: u32,
    /// `true` if its runs may take any time.
    pub(super) long: bool,
    /// Duration of its last run, in microseconds.
    pub(super) last: AtomicU64,
}

/// A shorter part runs on the thread of its call: to hand it to another thread would take as long.
const MAX_INLINE_TIME: Duration = Duration::from_micros(50);

impl RegisteredPart {
    /// `true` if it may run on a thread of the network: all its runs take the same time, and the last one was short.
    pub(super) fn is_short(&self) -> bool {
        let last = Duration::from_micros(self.last.load(Ordering::Relaxed));
        last < MAX_INLINE_TIME && !self.long
    }

    /// `true` if it neither waits nor exchanges values with other tasks.
    pub(super) fn is_alone(&self) -> bool {
        let crosses = !self.routes.sends.is_empty() || !self.routes.receives.is_empty();
        !crosses && !self.plan.waits()
    }

    pub(super) fn took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.last.store(micros, Ordering::Relaxed);
    }
}
