//! Time of a collective by phase: waits, copies, reductions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Phase of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits for other ranks, or for bytes on their way.
    Wait,
    /// Copies of bytes, also to and from other ranks.
    Copy,
    /// Elementwise reductions.
    Reduce,
}

impl Phase {
    pub(crate) const ALL: [Phase; 3] = [Phase::Wait, Phase::Copy, Phase::Reduce];

    /// Name in a trace.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Wait => "wait",
            Phase::Copy => "copy",
            Phase::Reduce => "reduce",
        }
    }
}

/// Sums the time of each phase while it is enabled. Clones share the sums.
#[derive(Clone, Default)]
pub(crate) struct PhaseTimer(Arc<Sums>);

#[derive(Default)]
struct Sums {
    enabled: AtomicBool,
    /// Nanoseconds by phase.
    spent: [AtomicU64; 3],
}

impl PhaseTimer {
    pub(crate) fn set_enabled(&self, enabled: bool) {
        self.0.enabled.store(enabled, Ordering::Relaxed);
    }

    /// Runs a closure and adds its time to a phase.
    pub(crate) fn time<R>(&self, phase: Phase, run: impl FnOnce() -> R) -> R {
        if !self.0.enabled.load(Ordering::Relaxed) {
            return run();
        }
        let began = Instant::now();
        let result = run();
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.spent[phase as usize].fetch_add(nanos, Ordering::Relaxed);
        result
    }

    /// Returns the time of each phase since the last call.
    pub(crate) fn take(&self) -> [(Phase, Duration); 3] {
        let of = |phase: Phase| {
            let nanos = self.0.spent[phase as usize].swap(0, Ordering::Relaxed);
            (phase, Duration::from_nanos(nanos))
        };
        Phase::ALL.map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enabled_timer_sums_phases_and_its_clones_share_the_sums() {
        let timer = PhaseTimer::default();
        let nap = || std::thread::sleep(Duration::from_millis(2));
        timer.time(Phase::Copy, nap);
        assert!(timer.take().iter().all(|(_, spent)| spent.is_zero()));
        let other = timer.clone();
        timer.set_enabled(true);
        assert_eq!(other.time(Phase::Reduce, || 7), 7);
        other.time(Phase::Wait, nap);
        let [wait, copy, reduce] = timer.take();
        assert!(
            wait.1 >= Duration::from_millis(2) && copy.1.is_zero(),
            "{wait:?} {copy:?}"
        );
        assert!(reduce.1 > Duration::ZERO);
        assert!(timer.take().iter().all(|(_, spent)| spent.is_zero()));
    }
}
