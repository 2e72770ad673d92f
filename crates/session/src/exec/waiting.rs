//! Blocked nodes of a step: their tickets, and the thread that waits for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use thalweg_cpu::thread_pool::PoolWaker;
use thalweg_device::Ticket;
use thalweg_tensor::sync::Unpoisoned;

use crate::task_channels::Parker;

/// Time between two checks whether a waiting step was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Identifies a waiting node of a step.
pub(crate) type WaiterId = u64;

/// The blocked nodes of one step.
pub(crate) struct Waiting {
    shared: Arc<Wakeups>,
    tickets: Mutex<HashMap<WaiterId, TicketState>>,
}

struct TicketState {
    number: u64,
    abandon: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Default)]
struct Wakeups {
    woken: Mutex<Vec<WaiterId>>,
    /// `true` if `woken` is not empty: read without the lock.
    any: AtomicBool,
    changed: Condvar,
    /// The pools whose threads may wait for a node of the step.
    pools: Vec<PoolWaker>,
    parker: Option<Arc<dyn Parker>>,
}

impl Wakeups {
    fn woken(&self) -> MutexGuard<'_, Vec<WaiterId>> {
        self.woken.lock().unpoisoned()
    }

    fn wake(&self, waiter: WaiterId) {
        let mut woken = self.woken();
        woken.push(waiter);
        self.any.store(true, Ordering::Release);
        drop(woken);
        self.changed.notify_all();
        self.pools.iter().for_each(PoolWaker::notify);
        if let Some(parker) = &self.parker {
            parker.unpark();
        }
    }

    /// Takes the nodes that were woken.
    fn take(&self, mut woken: MutexGuard<'_, Vec<WaiterId>>) -> Vec<WaiterId> {
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *woken)
    }
}

/// Generator of ticket numbers, unique in a process.
#[derive(Default)]
pub(crate) struct Tickets(AtomicU64);

impl Waiting {
    /// No blocked nodes yet; `pools` are notified when one may go on.
    pub(crate) fn new(parker: Option<Arc<dyn Parker>>, pools: Vec<PoolWaker>) -> Waiting {
        let shared = Wakeups {
            parker,
            pools,
            ..Wakeups::default()
        };
        Waiting {
            shared: Arc::new(shared),
            tickets: Mutex::default(),
        }
    }

    fn tickets(&self) -> MutexGuard<'_, HashMap<WaiterId, TicketState>> {
        self.tickets.lock().unpoisoned()
    }

    /// Returns the ticket of a node, the same each time.
    pub(crate) fn ticket(&self, waiter: WaiterId, numbers: &Tickets) -> Ticket {
        let mut tickets = self.tickets();
        let number = tickets.entry(waiter).or_insert_with(|| TicketState {
            number: numbers.0.fetch_add(1, Ordering::Relaxed) + 1,
            abandon: None,
        });
        let shared = self.shared.clone();
        Ticket::new(number.number, move || shared.wake(waiter))
    }

    /// `true` if a node was woken.
    pub(crate) fn has_woken(&self) -> bool {
        self.shared.any.load(Ordering::Acquire)
    }

    /// Takes the nodes that were woken.
    pub(crate) fn woken(&self) -> Vec<WaiterId> {
        self.shared.take(self.shared.woken())
    }

    /// Registers a callback for the case that the step ends while a node waits.
    pub(crate) fn on_abandon(&self, waiter: WaiterId, abandon: Box<dyn FnOnce() + Send>) {
        if let Some(held) = self.tickets().get_mut(&waiter) {
            held.abandon = Some(abandon);
        }
    }

    /// Removes a node that waits no more.
    pub(crate) fn done(&self, waiter: WaiterId) {
        self.tickets().remove(&waiter);
    }

    /// Waits until a node may run again, for a bounded time; returns those that may.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Vec<WaiterId> {
        let mut woken = self.shared.woken();
        if woken.is_empty()
            && let Some(parker) = &self.shared.parker
        {
            drop(woken);
            parker.park();
            return self.woken();
        }
        if woken.is_empty() {
            let left = deadline.map_or(POLL_INTERVAL, |d| {
                d.saturating_duration_since(Instant::now())
            });
            woken = self
                .shared
                .changed
                .wait_timeout(woken, left.min(POLL_INTERVAL))
                .unpoisoned()
                .0;
        }
        self.shared.take(woken)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let tickets = std::mem::take(&mut *self.tickets());
        for held in tickets.into_values() {
            if let Some(abandon) = held.abandon {
                abandon();
            }
        }
    }
}
