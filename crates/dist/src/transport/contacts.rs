//! What a task knows of its contact with the others: how much has crossed, when something last came, who is lost.
//!
//! It is noted by the connections themselves, those that this task makes and those that it accepts. What is noted is an
//! addition to an atomic number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::spec::{TaskName, shown};
use crate::runtime::lock::locked;

/// The contacts of a task, by the other task.
#[derive(Default)]
pub(crate) struct Contacts(Mutex<BTreeMap<TaskName, Arc<Contact>>>);

impl Contacts {
    /// That with this task, which is one of the cluster.
    pub(crate) fn with(&self, task: &TaskName) -> Arc<Contact> {
        let mut all = locked(&self.0);
        if let Some(contact) = all.get(task) {
            return contact.clone();
        }
        let contact = Arc::new(Contact::new(task));
        all.insert(task.clone(), contact.clone());
        contact
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Contact>> {
        locked(&self.0).values().cloned().collect()
    }
}

/// The contact with one task.
pub(crate) struct Contact {
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
pub(crate) struct Since(u64);

impl Contact {
    fn new((job, index): &TaskName) -> Contact {
        Contact {
            peer: shown(job, *index),
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
    pub(crate) fn hear(&self) {
        let millis = self.made.elapsed().as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX - 1);
        self.heard.store(millis + 1, Relaxed);
    }

    /// For how long nothing has come; none where nothing ever has.
    pub(crate) fn silent(&self) -> Option<Duration> {
        let heard = self.heard.load(Relaxed).checked_sub(1)?;
        Some((self.made.elapsed()).saturating_sub(Duration::from_millis(heard)))
    }

    /// Notes that a session or a connection has begun; gives whether the task had been lost, too.
    pub(crate) fn begin(&self) -> (Since, bool) {
        self.hear();
        self.done.store(false, Relaxed);
        let lost = self.lost.swap(false, Relaxed);
        (Since(self.losses.load(Relaxed)), lost)
    }

    /// Notes that what began then has ended by itself: the task is lost. What ends because of one loss counts once; the
    /// end of a task that has done its work is none.
    pub(crate) fn lose(&self, since: Since, why: &str) {
        let Since(losses) = since;
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
    pub(crate) fn finish(&self) {
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
    fn what_ends_with_one_loss_counts_once() {
        let contact = Contact::new(&("ps".to_owned(), 1));
        let (first, second) = (contact.begin().0, contact.begin().0);
        contact.lose(first, "it is gone");
        assert!(contact.is_lost());
        let (third, was_lost) = contact.begin();
        assert!(was_lost && !contact.is_lost());
        // It ends late, and because of the first loss.
        contact.lose(second, "it is gone");
        assert!(!contact.is_lost());
        contact.lose(third, "it is gone again");
        assert!(contact.is_lost());
        assert_eq!(contact.losses.load(Relaxed), 2);
    }

    #[test]
    fn a_task_that_has_done_its_work_is_not_lost() {
        let contact = Contact::new(&("worker".to_owned(), 0));
        let since = contact.begin().0;
        contact.finish();
        contact.lose(since, "it is gone");
        assert!(!contact.is_lost());
        // Until it comes again.
        let since = contact.begin().0;
        contact.lose(since, "it is gone");
        assert!(contact.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_silent_from_when_something_last_came() {
        let contact = Contact::new(&("ps".to_owned(), 0));
        assert_eq!(contact.silent(), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        contact.hear();
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(contact.silent(), Some(Duration::from_secs(7)));
    }
}
