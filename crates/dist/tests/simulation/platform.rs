//! Deterministic threads and random numbers of a seed.
//!
//! Simulated time stands still during a computation. Each piece of work has a thread, and the simulation blocks until
//! the work waits or ends: two of them never run at a time.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use thalweg_session::{Cancel, Parker};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::error::{Cause, ClusterError};
use crate::runtime::platform::{Platform, StepWork, WorkFuture};
use crate::runtime::threads::Work;

/// A host of the simulation, from its start to its end.
pub(super) struct Simulated {
    runtime: Handle,
    random: AtomicU64,
    /// Number of free threads for parts.
    threads: Arc<AtomicUsize>,
    /// Number of free threads for other work.
    others: Arc<AtomicUsize>,
    busy: Busy,
}

/// Reference count of the running work of a host.
pub(super) type Busy = Arc<()>;

thread_local! {
    /// Parker of the computation on this thread.
    static PARKER: RefCell<Option<Arc<dyn Parker>>> = const { RefCell::new(None) };
}

impl Simulated {
    /// Returns the platform of the current host, with these numbers of threads for parts and for other work.
    pub(super) fn here(
        seed: u64,
        (threads, others): (usize, usize),
        busy: Busy,
    ) -> Arc<dyn Platform> {
        Arc::new(Simulated {
            runtime: Handle::current(),
            random: AtomicU64::new(seed),
            threads: Arc::new(AtomicUsize::new(threads)),
            others: Arc::new(AtomicUsize::new(others)),
            busy,
        })
    }
}

/// A thread of a host. A drop frees it.
struct Thread(
    Arc<AtomicUsize>,
    #[expect(dead_code, reason = "it is counted")] Busy,
);

impl Thread {
    fn take(of: &Arc<AtomicUsize>, busy: &Busy) -> Result<Thread, WorkFuture> {
        let one_less = |n: usize| n.checked_sub(1);
        let taken = of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        let none = |_| -> WorkFuture {
            let none = ClusterError::new(Cause::Exhausted, "the host has no more threads");
            Box::pin(std::future::ready(Err(none)))
        };
        taken
            .map(|_| Thread(of.clone(), busy.clone()))
            .map_err(none)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the next random number: SplitMix64 (Steele, Lea and Flood, 2014).
pub(super) fn next(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Increment of the state.
pub(super) const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

impl Platform for Simulated {
    fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn spawn_compute(&self, work: Work) -> WorkFuture {
        let thread = match Thread::take(&self.others, &self.busy) {
            Ok(thread) => thread,
            Err(none) => return none,
        };
        let runtime = self.runtime.clone();
        let work = Box::new(move |parker| {
            let _context = runtime.enter();
            PARKER.set(parker);
            work();
        });
        // Only the end of the host ends it.
        let mut turns = Turns::start(Cancel::new(), work);
        if !turns.waits() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let (give, given) = oneshot::channel();
        self.runtime.spawn(async move {
            turns.go_on().await;
            drop(thread);
            let _ = give.send(());
        });
        Box::pin(async { given.await.map_err(|e| ClusterError::defect(&e)) })
    }

    fn parker(&self) -> Option<Arc<dyn Parker>> {
        PARKER.with_borrow(Clone::clone)
    }

    fn spawn_step(&self, _: bool, cancel: &Cancel, work: StepWork) -> WorkFuture {
        let thread = match Thread::take(&self.threads, &self.busy) {
            Ok(thread) => thread,
            Err(none) => return none,
        };
        let cancel = cancel.clone();
        Box::pin(async move {
            let _thread = thread;
            let mut turns = Turns::start(cancel, work);
            if turns.waits() {
                turns.go_on().await;
            }
            Ok(())
        })
    }

    fn random_u64(&self) -> u64 {
        next(self.random.fetch_add(STRIDE, Ordering::Relaxed))
    }

    fn unix_micros(&self) -> u64 {
        let since = turmoil::sim_elapsed().unwrap_or_default();
        since.as_micros() as u64
    }
}

/// Message of a thread to the simulation.
enum Said {
    StepWork,
    Done,
}

/// Sends `Done` when it is dropped.
struct Done(mpsc::Sender<Said>);

impl Drop for Done {
    fn drop(&mut self) {
        let _ = self.0.send(Said::Done);
    }
}

/// A thread's side of its turns.
struct Baton {
    /// `true` if waiting computations have to end at once: their host is dead.
    dead: AtomicBool,
    woken: AtomicBool,
    notify: Notify,
    said: mpsc::Sender<Said>,
    go: Mutex<mpsc::Receiver<()>>,
}

impl Parker for Baton {
    fn park(&self) {
        let may_end = PARKER.with_borrow(Option::is_some);
        if may_end && self.dead.load(Ordering::SeqCst) {
            // As a silent panic.
            resume_unwind(Box::new("the host is dead"));
        }
        if !self.woken.swap(false, Ordering::SeqCst) {
            // Without a receiver the part has to end, which it sees next.
            let _ = self.said.send(Said::StepWork);
            let _ = self.go.lock().unwrap().recv();
            self.woken.store(false, Ordering::SeqCst);
        }
    }

    fn unpark(&self) {
        self.woken.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }
}

/// The simulation's side.
struct Turns {
    baton: Arc<Baton>,
    said: mpsc::Receiver<Said>,
    go: mpsc::Sender<()>,
    cancel: Cancel,
    over: bool,
}

impl Turns {
    fn start(cancel: Cancel, work: StepWork) -> Turns {
        let (says, said) = mpsc::channel();
        let (go, goes) = mpsc::channel();
        let baton = Arc::new(Baton {
            dead: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            notify: Notify::new(),
            said: says.clone(),
            go: Mutex::new(goes),
        });
        let parker = baton.clone();
        std::thread::spawn(move || {
            super::clock::stop();
            // Also where it panics.
            let _done = Done(says);
            work(Some(parker));
        });
        Turns {
            baton,
            said,
            go,
            cancel,
            over: false,
        }
    }

    /// `true` if it waits; otherwise it has ended.
    fn waits(&mut self) -> bool {
        self.over = !matches!(self.said.recv(), Ok(Said::StepWork));
        !self.over
    }

    /// From where it waits to its end.
    async fn go_on(&mut self) {
        loop {
            self.baton.notify.notified().await;
            let _ = self.go.send(());
            if !self.waits() {
                return;
            }
        }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.cancel.cancel();
        self.baton.dead.store(true, Ordering::SeqCst);
        loop {
            let _ = self.go.send(());
            if !self.waits() {
                return;
            }
        }
    }
}
