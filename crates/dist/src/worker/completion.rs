//! Completion of workers: which tasks have sessions here, have disconnected, or have finished.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::spec::TaskName;

/// State of the tasks whose masters use this task.
#[derive(Debug, Default)]
pub(crate) struct CompletionState {
    /// Tasks with open sessions here.
    pub(super) here: BTreeSet<TaskName>,
    /// Tasks without sessions, and the time at which the last one ended.
    pub(super) left: BTreeMap<TaskName, Instant>,
    /// Tasks that have finished their work, and the time.
    pub(super) finished: BTreeMap<TaskName, Instant>,
}

/// Outcome of a wait for tasks.
#[derive(Debug, PartialEq)]
pub(crate) enum WaitOutcome {
    /// All tasks have finished, except these, which were away for too long.
    Over(Vec<TaskName>),
    /// Some tasks still work, or may come back: the end of the wait if nothing changes.
    Until(Option<Instant>),
}

impl CompletionState {
    /// Returns the outcome for these tasks. `worker_rejoin` is the time for which a task may be away. For a task that
    /// never connected it starts when the last of the others has finished or disconnected: tasks start in any order.
    pub(crate) fn awaited(
        &self,
        tasks: &[TaskName],
        worker_rejoin: Duration,
        now: Instant,
    ) -> WaitOutcome {
        let unfinished = tasks.iter().filter(|t| !self.finished.contains_key(t));
        let unfinished: Vec<&TaskName> = unfinished.collect();
        if unfinished.iter().any(|t| self.here.contains(*t)) {
            return WaitOutcome::Until(None);
        }
        let gone = |t: &TaskName| self.finished.get(t).or(self.left.get(t)).copied();
        let latest = tasks.iter().filter_map(gone).max();
        let since = unfinished.iter().map(|t| gone(t).or(latest)).max();
        match since {
            None => WaitOutcome::Over(Vec::new()),
            Some(None) => WaitOutcome::Until(None),
            Some(Some(since)) if now < since + worker_rejoin => {
                WaitOutcome::Until(Some(since + worker_rejoin))
            }
            Some(Some(_)) => WaitOutcome::Over(unfinished.into_iter().cloned().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER_REJOIN: Duration = Duration::from_secs(60);

    fn worker(index: u32) -> TaskName {
        ("worker".to_owned(), index)
    }

    /// Returns the outcome for three workers, of which these are connected, have disconnected and have finished at
    /// these seconds. Instants are in seconds.
    fn awaited(
        here: &[u32],
        left: &[(u32, u64)],
        finished: &[(u32, u64)],
        now: u64,
    ) -> Result<Vec<u32>, Option<u64>> {
        let zero = Instant::now();
        let at = |&(index, s): &(u32, u64)| (worker(index), zero + Duration::from_secs(s));
        let presence = CompletionState {
            here: here.iter().copied().map(worker).collect(),
            left: left.iter().map(at).collect(),
            finished: finished.iter().map(at).collect(),
        };
        let all = [0, 1, 2].map(worker);
        match presence.awaited(&all, WORKER_REJOIN, zero + Duration::from_secs(now)) {
            WaitOutcome::Over(lost) => Ok(lost.into_iter().map(|(_, index)| index).collect()),
            WaitOutcome::Until(until) => Err(until.map(|u| (u - zero).as_secs())),
        }
    }

    #[test]
    fn finished_workers_end_the_wait() {
        let all = [(0, 1), (1, 5), (2, 3)];
        assert_eq!(awaited(&[], &[], &all, 5), Ok(vec![]));
        // A session that is closed late, or is made to inspect the result, changes nothing.
        assert_eq!(awaited(&[1], &[(0, 9)], &all, 9), Ok(vec![]));
    }

    #[test]
    fn a_connected_worker_is_waited_for_without_a_bound() {
        assert_eq!(awaited(&[1], &[(2, 1)], &[(0, 1)], 1_000_000), Err(None));
    }

    #[test]
    fn a_disconnected_worker_is_waited_for_until_worker_rejoin() {
        let (left, finished) = ([(1, 7)], [(0, 1), (2, 30)]);
        assert_eq!(awaited(&[], &left, &finished, 66), Err(Some(67)));
        assert_eq!(awaited(&[], &left, &finished, 67), Ok(vec![1]));
        // A worker that still works at that time has its own.
        assert_eq!(awaited(&[2], &left, &[(0, 1)], 100), Err(None));
        assert_eq!(awaited(&[], &left, &[(0, 1), (2, 200)], 200), Ok(vec![1]));
        // A worker that has come back is connected.
        assert_eq!(awaited(&[1], &left, &finished, 100), Err(None));
    }

    #[test]
    fn disconnected_workers_are_lost_together() {
        let left = [(0, 1), (1, 50), (2, 3)];
        assert_eq!(awaited(&[], &left, &[], 109), Err(Some(110)));
        assert_eq!(awaited(&[], &left, &[], 110), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn the_rejoin_time_of_an_absent_worker_starts_when_the_others_are_done() {
        assert_eq!(awaited(&[], &[], &[], 1_000_000), Err(None));
        assert_eq!(awaited(&[], &[], &[(0, 5)], 64), Err(Some(65)));
        assert_eq!(awaited(&[], &[(1, 20)], &[(0, 5)], 79), Err(Some(80)));
        assert_eq!(awaited(&[], &[(1, 20)], &[(0, 5)], 80), Ok(vec![1, 2]));
    }
}
