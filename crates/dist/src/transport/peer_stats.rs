//! Statistics of a task's peers: bytes sent and received, last contact, losses.
//!
//! The connections update them, those that this task makes and those that it accepts. Each update is an addition to
//! an atomic number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_tensor::sync::Unpoisoned;
use tokio::time::Instant;

use crate::cluster::spec::{TaskName, task_label};

/// Statistics by peer.
#[derive(Default)]
pub(crate) struct PeerStatsTable(Mutex<BTreeMap<TaskName, Arc<PeerStats>>>);

impl PeerStatsTable {
    /// Returns the statistics of this peer, a task of the cluster.
    pub(crate) fn with(&self, task: &TaskName) -> Arc<PeerStats> {
        let mut all = self.0.lock().unpoisoned();
        if let Some(peer_stats) = all.get(task) {
            return peer_stats.clone();
        }
        let peer_stats = Arc::new(PeerStats::new(task));
        all.insert(task.clone(), peer_stats.clone());
        peer_stats
    }

    /// Returns the statistics of all peers.
    pub(crate) fn all(&self) -> Vec<Arc<PeerStats>> {
        self.0.lock().unpoisoned().values().cloned().collect()
    }
}

/// Statistics of one peer.
pub(crate) struct PeerStats {
    /// Name of the peer: `/job:ps/task:0`.
    pub(crate) peer: String,
    /// Bytes written to connections with it, and read from them.
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// Bytes of values that it has sent through shared memory.
    pub(crate) shared: AtomicU64,
    /// Number of calls that wait for its first answer.
    pub(crate) waiting: AtomicU64,
    /// Number of receives that wait for values of it.
    pub(crate) receives: AtomicU64,
    /// Number of its losses.
    pub(crate) losses: AtomicU64,
    lost: AtomicBool,
    /// `true` once it has finished its work: its end is then no loss.
    done: AtomicBool,
    made: Instant,
    /// Milliseconds from `made` to the last bytes, plus 1; 0 if none came.
    heard: AtomicU64,
}

/// Number of losses of a peer at the begin of a session or a connection.
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
            receives: AtomicU64::new(0),
            losses: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            done: AtomicBool::new(false),
            made: Instant::now(),
            heard: AtomicU64::new(0),
        }
    }

    /// Notes that bytes came from it.
    pub(crate) fn note_received(&self) {
        let millis = self.made.elapsed().as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX - 1);
        self.heard.store(millis + 1, Relaxed);
    }

    /// Returns the time since the last bytes. `None` if none ever came.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        let heard = self.heard.load(Relaxed).checked_sub(1)?;
        Some((self.made.elapsed()).saturating_sub(Duration::from_millis(heard)))
    }

    /// Notes that a session or a connection has begun. Also returns `true` if the peer had been lost.
    pub(crate) fn note_connected(&self) -> (LossEpoch, bool) {
        self.note_received();
        self.done.store(false, Relaxed);
        let lost = self.lost.swap(false, Relaxed);
        (LossEpoch(self.losses.load(Relaxed)), lost)
    }

    /// Notes the unexpected end of a session or a connection that began at `since`: the peer is lost. Several ends of
    /// one loss count once; the end of a finished peer is no loss.
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

    /// Notes that it has finished its work.
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
        // A late end, because of the first loss.
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
        // Until it connects again.
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
