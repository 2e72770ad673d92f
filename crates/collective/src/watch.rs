//! Where the time of a collective goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a rank does within a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing: it waits for other ranks, or for bytes on their way.
    Wait,
    /// It copies bytes, to and from other ranks too.
    Copy,
    /// It adds, or what the reduction is.
    Reduce,
}

impl Phase {
    pub(crate) const ALL: [Phase; 3] = [Phase::Wait, Phase::Copy, Phase::Reduce];

    /// Its name in a trace.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Wait => "wait",
            Phase::Copy => "copy",
            Phase::Reduce => "reduce",
        }
    }
}

/// Sums the time of each phase, while it is on. Clones share the sums.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Sums>);

#[derive(Default)]
struct Sums {
    on: AtomicBool,
    /// By phase: nanoseconds.
    spent: [AtomicU64; 3],
}

impl Watch {
    pub(crate) fn turn(&self, on: bool) {
        self.0.on.store(on, Ordering::Relaxed);
    }

    /// Runs something that is of a phase.
    pub(crate) fn time<R>(&self, phase: Phase, run: impl FnOnce() -> R) -> R {
        if !self.0.on.load(Ordering::Relaxed) {
            return run();
        }
        let began = Instant::now();
        let result = run();
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.spent[phase as usize].fetch_add(nanos, Ordering::Relaxed);
        result
    }

    /// The time of each phase since this was asked last.
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
    fn only_a_watch_that_is_on_sums_and_its_clones_share_the_sums() {
        let watch = Watch::default();
        let nap = || std::thread::sleep(Duration::from_millis(2));
        watch.time(Phase::Copy, nap);
        assert!(watch.take().iter().all(|(_, spent)| spent.is_zero()));
        let other = watch.clone();
        watch.turn(true);
        assert_eq!(other.time(Phase::Reduce, || 7), 7);
        other.time(Phase::Wait, nap);
        let [wait, copy, reduce] = watch.take();
        assert!(
            wait.1 >= Duration::from_millis(2) && copy.1.is_zero(),
            "{wait:?} {copy:?}"
        );
        assert!(reduce.1 > Duration::ZERO);
        assert!(watch.take().iter().all(|(_, spent)| spent.is_zero()));
    }
}
