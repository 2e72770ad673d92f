//! The CPU's threads: a pool that splits loops over a fixed set of workers.
//!
//! A call publishes its loop in one of a fixed number of slots; idle workers join it, draw indices ([`Shares`]) and
//! leave. The caller draws too, and returns only when every participant has left, so that a body may borrow from the
//! caller's stack. Which thread runs which index is not fixed, so a body whose result depends only on its index gives
//! the same result on any number of threads.
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use thalweg_cpu::ThreadPool;
//!
//! // Two threads: a worker, and the caller.
//! let pool = ThreadPool::new(2);
//! let sum = AtomicUsize::new(0);
//! pool.parallel_for(101, &|i| {
//!     sum.fetch_add(i, Ordering::Relaxed);
//! });
//! assert_eq!(sum.into_inner(), 5050);
//! ```

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_tensor::sync::Unpoisoned;

use crate::shares::Shares;

/// Time that an idle thread spins for work before it parks. Waking a parked thread costs several microseconds, and the
/// gaps between the kernels of one step are shorter than this.
const SPIN_TIME: Duration = Duration::from_micros(40);

/// One bit per slot in the masks of [`PoolState`].
const SLOTS: usize = u64::BITS as usize;

/// Set in [`Slot::state`] while workers may join; the bits below count those that have joined and not yet left.
const OPEN: usize = 1 << (usize::BITS - 1);

type Body<'a> = dyn Fn(usize) + Sync + 'a;

/// A fixed set of threads that run loops together with their caller.
///
/// Dropping the pool ends and joins its workers.
pub struct ThreadPool {
    shared: Arc<PoolState>,
    workers: Vec<JoinHandle<()>>,
}

impl ThreadPool {
    /// Makes a pool of `threads` threads, of which one is the caller of each loop: `threads - 1` workers are started.
    ///
    /// Zero counts as one. If the system refuses a thread, the pool has those that it got.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(PoolState::new());
        let workers = (1..threads)
            .map_while(|i| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("thalweg-cpu-{i}"))
                    .spawn(move || shared.work())
                    .ok()
            })
            .collect();
        ThreadPool { shared, workers }
    }

    /// The number of threads that can run a loop's body at the same time, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `body(i)` for every `i` in `0..tasks`, each once, on the workers and the caller, and returns when all are
    /// done.
    ///
    /// May be called from inside a body and from several threads at once. Allocates nothing. One task, or a pool of one
    /// thread, runs inline with no synchronisation.
    ///
    /// # Panics
    /// If a body panics, the first panic is resumed here once no thread is in a body any more.
    pub fn parallel_for(&self, tasks: usize, body: &(dyn Fn(usize) + Sync)) {
        self.run(tasks, body, &self.shared.leaves);
    }

    /// Like [`parallel_for`](Self::parallel_for), for bodies that are long-lived loops ("roots").
    ///
    /// A thread that waits, in [`wait_until`](Self::wait_until) or for the end of a loop, never picks up a root: it could
    /// not come back before that root ends. A root must not count on another root running at the same time.
    ///
    /// # Panics
    /// As [`parallel_for`](Self::parallel_for).
    pub fn run_roots(&self, tasks: usize, body: &(dyn Fn(usize) + Sync)) {
        self.run(tasks, body, &self.shared.roots);
    }

    /// Helps with the tasks of [`parallel_for`](Self::parallel_for) until `ready()` is true: spins briefly, then parks
    /// until [`notify`](Self::notify) or new work.
    ///
    /// `ready` is called again and again, from this thread, with no lock held.
    pub fn wait_until(&self, ready: &dyn Fn() -> bool) {
        self.shared.help_until(ready);
    }

    /// Wakes the threads that are parked in [`wait_until`](Self::wait_until), so that they check their condition again.
    pub fn notify(&self) {
        self.shared.wake();
    }

    /// Returns a handle that wakes the threads as [`notify`](Self::notify) does, without the pool itself.
    pub fn waker(&self) -> PoolWaker {
        PoolWaker(self.shared.clone())
    }

    fn run(&self, tasks: usize, body: &Body<'_>, published: &AtomicU64) {
        let slot = if tasks > 1 && !self.workers.is_empty() {
            self.shared.claim_slot()
        } else {
            None
        };
        match slot {
            Some(i) => {
                let threads = self.threads().min(tasks);
                let job = (tasks, threads, body);
                self.shared.run_in_slot(i, job, published)
            }
            None => (0..tasks).for_each(body),
        }
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("threads", &self.threads())
            .finish()
    }
}

/// Wakes the threads of a pool that are parked in [`ThreadPool::wait_until`]. It may outlive the pool.
#[derive(Clone)]
pub struct PoolWaker(Arc<PoolState>);

impl PoolWaker {
    /// As [`ThreadPool::notify`].
    pub fn notify(&self) {
        self.0.wake();
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.shutdown.store(true, Ordering::SeqCst);
        self.shared.wake();
        for worker in self.workers.drain(..) {
            // A worker catches panics of its bodies, so that joining it cannot fail.
            let _ = worker.join();
        }
    }
}

/// A published loop. Each slot has its own cache lines, as `shares` are fought over while others are idle.
#[repr(align(128))]
struct Slot {
    state: AtomicUsize,
    shares: Shares,
    /// Workers that have joined.
    joined: AtomicUsize,
    job: UnsafeCell<Option<PoolJob>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

#[derive(Clone, Copy)]
struct PoolJob {
    body: *const Body<'static>,
    tasks: usize,
    /// The threads that it is shared among.
    threads: usize,
}

// SAFETY: `job` is written only by the thread that claimed the slot, while the slot is closed and has no participants,
// and read only by participants; `Body` is `Sync`, so the pointer in it may be used from any thread.
unsafe impl Sync for Slot {}
// SAFETY: as above; nothing in a slot belongs to a thread.
unsafe impl Send for Slot {}

struct PoolState {
    slots: [Slot; SLOTS],
    /// Slots that belong to a call.
    claimed: AtomicU64,
    /// Slots with indices left to draw, by kind. A hint: `Slot::state` decides.
    leaves: AtomicU64,
    roots: AtomicU64,
    shutdown: AtomicBool,
    /// Threads that are parked or about to.
    sleepers: AtomicUsize,
    /// Counts wake-ups; written under `sleep` only.
    epoch: AtomicU64,
    sleep: Mutex<()>,
    alarm: Condvar,
}

impl PoolState {
    fn new() -> Self {
        PoolState {
            slots: std::array::from_fn(|_| Slot {
                state: AtomicUsize::new(0),
                shares: Shares::default(),
                joined: AtomicUsize::new(0),
                job: UnsafeCell::new(None),
                panic: Mutex::new(None),
            }),
            claimed: AtomicU64::new(0),
            leaves: AtomicU64::new(0),
            roots: AtomicU64::new(0),
            shutdown: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            epoch: AtomicU64::new(0),
            sleep: Mutex::new(()),
            alarm: Condvar::new(),
        }
    }

    fn claim_slot(&self) -> Option<usize> {
        let mut claimed = self.claimed.load(Ordering::Relaxed);
        loop {
            let free = (!claimed).trailing_zeros() as usize;
            if free == SLOTS {
                return None;
            }
            let wanted = claimed | 1 << free;
            match self.claimed.compare_exchange_weak(
                claimed,
                wanted,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(free),
                Err(now) => claimed = now,
            }
        }
    }

    fn run_in_slot(
        &self,
        i: usize,
        (tasks, threads, body): (usize, usize, &Body<'_>),
        published: &AtomicU64,
    ) {
        let (slot, bit) = (&self.slots[i], 1u64 << i);
        // SAFETY: only the lifetime changes. The pointer is used by participants only, and this function waits below
        // until the slot is closed and the last participant has left; nothing in between can unwind.
        let body = unsafe { std::mem::transmute::<&Body<'_>, *const Body<'static>>(body) };
        // SAFETY: this thread claimed the slot, which is closed and empty, so no other thread looks at `job`.
        unsafe {
            *slot.job.get() = Some(PoolJob {
                body,
                tasks,
                threads,
            });
        }
        slot.shares.reset(tasks, threads);
        slot.joined.store(0, Ordering::Relaxed);
        // The caller is a participant from the start.
        slot.state.store(OPEN | 1, Ordering::Release);
        published.fetch_or(bit, Ordering::Release);
        self.wake();

        self.draw(i, 0, published);
        slot.state.fetch_sub(OPEN | 1, Ordering::AcqRel);
        self.help_until(&|| slot.state.load(Ordering::Acquire) == 0);

        let panic = slot.panic.lock().unpoisoned().take();
        self.claimed.fetch_and(!bit, Ordering::Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Runs indices of slot `i`, of share `home` first, until none is left. The caller must be a participant of the slot.
    fn draw(&self, i: usize, home: usize, published: &AtomicU64) {
        let slot = &self.slots[i];
        // SAFETY: a participant reads `job` after its Acquire of `state`, and it is not written before it has left.
        let Some(job) = (unsafe { *slot.job.get() }) else {
            return;
        };
        slot.shares.draw(job.tasks, job.threads, home, |index| {
            // SAFETY: the owner of the slot keeps the body alive until all participants have left.
            let body = unsafe { &*job.body };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(index))) {
                let mut first = slot.panic.lock().unpoisoned();
                if first.is_none() {
                    *first = Some(panic);
                } else {
                    // Leaked, as dropping it runs a user's code, which could unwind out of here.
                    std::mem::forget(panic);
                }
            }
        });
        // Still a participant, so the bit cannot belong to a later use of the slot.
        published.fetch_and(!(1 << i), Ordering::Relaxed);
    }

    /// Joins one published loop of this kind and runs the rest of it; returns `false` if there was none.
    fn help(&self, published: &AtomicU64) -> bool {
        let mut mask = published.load(Ordering::Relaxed);
        while mask != 0 {
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let state = &self.slots[i].state;
            let joined = state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |s| {
                (s & OPEN != 0).then_some(s + 1)
            });
            // A slot may have been closed and claimed again for a loop of the other kind since the mask was read: its
            // bit is read again once this thread has joined.
            if joined.is_err() {
                continue;
            }
            let mine = published.load(Ordering::Acquire) & (1 << i) != 0;
            if mine {
                let home = 1 + self.slots[i].joined.fetch_add(1, Ordering::Relaxed);
                self.draw(i, home, published);
            }
            if state.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.wake();
            }
            if mine {
                return true;
            }
        }
        false
    }

    fn help_until(&self, ready: &dyn Fn() -> bool) {
        self.idle_until(
            ready,
            || self.help(&self.leaves),
            || self.leaves.load(Ordering::Relaxed) != 0,
        );
    }

    fn work(&self) {
        self.idle_until(
            &|| self.shutdown.load(Ordering::Acquire),
            || self.help(&self.leaves) || self.help(&self.roots),
            || (self.leaves.load(Ordering::Relaxed) | self.roots.load(Ordering::Relaxed)) != 0,
        );
    }

    /// Calls `help` until `ready`, spinning and then parking while there is nothing to do. `pending` returns, inside
    /// the protocol of parking, whether `help` would find something.
    fn idle_until(
        &self,
        ready: &dyn Fn() -> bool,
        help: impl Fn() -> bool,
        pending: impl Fn() -> bool,
    ) {
        let mut idle_since: Option<Instant> = None;
        let mut spins = 0u32;
        loop {
            if ready() {
                return;
            }
            if help() {
                idle_since = None;
                spins = 0;
                continue;
            }
            std::hint::spin_loop();
            spins += 1;
            if !spins.is_multiple_of(32) {
                continue;
            }
            let since = *idle_since.get_or_insert_with(Instant::now);
            if since.elapsed() < SPIN_TIME {
                continue;
            }
            // Announced first, checked again second: a publisher does it in the other order, so one sees the other.
            let _asleep = Sleeper::new(&self.sleepers);
            let epoch = self.epoch.load(Ordering::SeqCst);
            if ready() || pending() {
                continue;
            }
            let mut guard = self.sleep.lock().unpoisoned();
            while self.epoch.load(Ordering::Relaxed) == epoch {
                guard = self.alarm.wait(guard).unpoisoned();
            }
            drop(guard);
            idle_since = None;
        }
    }

    /// Wakes every parked thread, after this thread has changed their condition.
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        let guard = self.sleep.lock().unpoisoned();
        self.epoch.fetch_add(1, Ordering::SeqCst);
        drop(guard);
        self.alarm.notify_all();
    }
}

/// Counts its owner among the sleepers while it lives, also if the owner's condition panics.
struct Sleeper<'a>(&'a AtomicUsize);

impl<'a> Sleeper<'a> {
    fn new(sleepers: &'a AtomicUsize) -> Self {
        sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Sleeper(sleepers)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
