//! What a task knows of its contact with the others: how much has crossed, when something last came, who is lost.
//!
//! It is noted by the connections themselves, those that this task makes and those that it accepts. What is noted is an
//! addition to an atomic number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::spec::{TaskName, task_label};
use crate::runtime::lock::locked;

/// The contacts of a task, by the other task.
#[derive(Default)]
pub(crate) struct PeerStatsTable(Mutex<BTreeMap<TaskName, Arc<PeerStats>>>);

impl PeerStatsTable {
    /// That with this task, which is one of the cluster.
    pub(crate) fn with(&self, task: &TaskName) -> Arc<PeerStats> {
        let mut all = locked(&self.0);
        if let Some(peer_stats) = all.get(task) {
            return peer_stats.clone();
        }
        let peer_stats = Arc::new(PeerStats::new(task));
        all.insert(task.clone(), peer_stats.clone());
        peer_stats
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<PeerStats>> {
        locked(&self.0).values().cloned().collect()
    }
}

/// The contact with one task.
pub(crate) struct PeerStats {
    /// `/job:ps/task:0`.
    pub(crate) peer: String,
    /// Bytes that were written to connections, and read from them.
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// Bytes that it has lent through shared memory.
    pub(crate) shared: AtomicU64,
    /// Calls that wait until it answers for the first time.
    pub(crate) waiting: AtomicU64,
    /// How often it was lost.
    pub(crate) losses: AtomicU64,
    lost: AtomicBool,
    /// Whether it has said that it has done its work: it may go.
    done: AtomicBool,
    made: Instant,
    /// Milliseconds from `made` until something last came, and one; 0 where nothing has.
    heard: AtomicU64,
}

/// A session or a connection with a task, which began when the task had been lost so often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossEpoch(u64);

impl PeerStats {
    fn new((job, index): &TaskName) -> PeerStats {
        PeerStats {
            peer: task_label(job, *index),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            losses: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            done: AtomicBool::new(false),
            made: Instant::now(),
            heard: AtomicU64::new(0),
        }
    }

    /// Notes that something has come.
    pub(crate) fn note_received(&self) {
        let millis = self.made.elapsed().as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX - 1);
        self.heard.store(millis + 1, Relaxed);
    }

    /// For how long nothing has come; none where nothing ever has.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        let heard = self.heard.load(Relaxed).checked_sub(1)?;
        Some((self.made.elapsed()).saturating_sub(Duration::from_millis(heard)))
    }

    /// Notes that a session or a connection has begun; gives whether the task had been lost, too.
    pub(crate) fn note_connected(&self) -> (LossEpoch, bool) {
        self.note_received();
        self.done.store(false, Relaxed);
        let lost = self.lost.swap(false, Relaxed);
        (LossEpoch(self.losses.load(Relaxed)), lost)
    }

    /// Notes that what began then has ended by itself: the task is lost. What ends because of one loss counts once; the
    /// end of a task that has done its work is none.
    pub(crate) fn note_lost(&self, since: LossEpoch, why: &str) {
        let LossEpoch(losses) = since;
        if self.done.load(Relaxed) {
            return;
        }
        let counted = (self.losses).compare_exchange(losses, losses + 1, Relaxed, Relaxed);
        if counted.is_err() {
            return;
        }
        self.lost.store(true, Relaxed);
        tracing::warn!(peer = self.peer, why, "peer lost");
    }

    /// Notes that it has done its work.
    pub(crate) fn note_finished(&self) {
        self.done.store(true, Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loss_of_a_peer_counts_once() {
        let peer_stats = PeerStats::new(&("ps".to_owned(), 1));
        let (first, second) = (peer_stats.note_connected().0, peer_stats.note_connected().0);
        peer_stats.note_lost(first, "it is gone");
        assert!(peer_stats.is_lost());
        let (third, was_lost) = peer_stats.note_connected();
        assert!(was_lost && !peer_stats.is_lost());
        // It ends late, and because of the first loss.
        peer_stats.note_lost(second, "it is gone");
        assert!(!peer_stats.is_lost());
        peer_stats.note_lost(third, "it is gone again");
        assert!(peer_stats.is_lost());
        assert_eq!(peer_stats.losses.load(Relaxed), 2);
    }

    #[test]
    fn a_finished_peer_is_not_lost() {
        let peer_stats = PeerStats::new(&("worker".to_owned(), 0));
        let since = peer_stats.note_connected().0;
        peer_stats.note_finished();
        peer_stats.note_lost(since, "it is gone");
        assert!(!peer_stats.is_lost());
        // Until it comes again.
        let since = peer_stats.note_connected().0;
        peer_stats.note_lost(since, "it is gone");
        assert!(peer_stats.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_measured_from_the_last_bytes() {
        let peer_stats = PeerStats::new(&("ps".to_owned(), 0));
        assert_eq!(peer_stats.silent_for(), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        peer_stats.note_received();
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(peer_stats.silent_for(), Some(Duration::from_secs(7)));
    }
}
