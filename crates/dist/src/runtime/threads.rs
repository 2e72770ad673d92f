//! Pool of threads for parts of steps, beside those of the network.
//!
//! Work begins at once or is refused: it is never queued behind work that may wait for it. An idle thread waits a
//! while for more work, then ends.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use thalweg_tensor::sync::Unpoisoned;

use crate::error::{Cause, ClusterError};

/// Time that an idle thread waits for more work.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of threads.
const MAX_THREADS: usize = 1 << 13;

thread_local! {
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// `true` if this thread may block on work of the network: it runs none itself.
pub(crate) fn may_block() -> bool {
    MAY_BLOCK.get()
}

/// Work that runs to its end once it has begun.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// Starts a thread that runs this work.
type SpawnThread = Box<dyn Fn(Work) -> io::Result<()> + Send + Sync>;

/// Threads that start when they are needed.
pub(crate) struct StepThreads(Arc<PoolShared>);

struct PoolShared {
    state: Mutex<PoolState>,
    more: Condvar,
    start: SpawnThread,
    most: usize,
    idle: Duration,
}

#[derive(Default)]
struct PoolState {
    /// Work that a woken thread is about to take.
    work: VecDeque<Work>,
    /// Number of waiting threads for which there is no entry in `work`.
    idle: usize,
    count: usize,
    ended: bool,
}

impl StepThreads {
    /// Returns a pool without threads.
    pub(crate) fn new() -> StepThreads {
        let start = |work: Work| {
            let thread = std::thread::Builder::new().name("thalweg-part".to_owned());
            thread.spawn(work).map(drop)
        };
        StepThreads::with(Box::new(start), MAX_THREADS, IDLE_TIMEOUT)
    }

    fn with(start: SpawnThread, most: usize, idle: Duration) -> StepThreads {
        StepThreads(Arc::new(PoolShared {
            state: Mutex::default(),
            more: Condvar::new(),
            start,
            most,
            idle,
        }))
    }

    /// Returns the number of threads, and how many of them are idle.
    pub(crate) fn count(&self) -> (usize, usize) {
        let state = self.0.state();
        (state.count, state.idle)
    }

    /// Runs work on an idle thread, or on a new one.
    ///
    /// # Errors
    /// [`Cause::Exhausted`]: no thread is available. The work is dropped.
    pub(crate) fn run(&self, work: Work) -> Result<(), ClusterError> {
        let mut state = self.0.state();
        if state.idle > 0 {
            state.idle -= 1;
            state.work.push_back(work);
            drop(state);
            self.0.more.notify_one();
            return Ok(());
        }
        if state.count >= self.0.most {
            let text = format!(
                "this task has {} threads for steps, as many as it may: run fewer steps at a time",
                self.0.most
            );
            return Err(ClusterError::new(Cause::Exhausted, text));
        }
        state.count += 1;
        drop(state);
        let shared = self.0.clone();
        let started = (self.0.start)(Box::new(move || shared.work(work)));
        started.map_err(|e| {
            self.0.state().count -= 1;
            out_of_threads(&e)
        })
    }
}

impl Drop for StepThreads {
    fn drop(&mut self) {
        self.0.state().ended = true;
        self.0.more.notify_all();
    }
}

impl PoolShared {
    /// Locks the state. No work runs under this lock.
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unpoisoned()
    }

    /// Body of a thread.
    fn work(&self, first: Work) {
        MAY_BLOCK.set(true);
        let mut next = Some(first);
        while let Some(work) = next {
            // After a panic the work's sender is dropped, which the receiver notices.
            let _ = catch_unwind(AssertUnwindSafe(work));
            next = self.next();
        }
    }

    /// Waits for more work. `None` if the thread is to end.
    fn next(&self) -> Option<Work> {
        let mut state = self.state();
        if state.ended {
            state.count -= 1;
            return None;
        }
        state.idle += 1;
        loop {
            let (woken, timeout) = self.more.wait_timeout(state, self.idle).unpoisoned();
            state = woken;
            if let Some(work) = state.work.pop_front() {
                return Some(work);
            }
            // Another thread has taken the work that this one was woken for; that thread no longer counts as idle,
            // this one still does.
            if state.ended || (timeout.timed_out() && state.idle > 0) {
                state.idle = state.idle.saturating_sub(1);
                state.count -= 1;
                return None;
            }
        }
    }
}

/// Error of a thread that the system did not give.
pub(crate) fn out_of_threads(error: &io::Error) -> ClusterError {
    let text = format!(
        "the system gives this process no more threads (ulimit -u, pids.max): {error}. Allow it more, or run fewer steps at a time"
    );
    ClusterError::new(Cause::Exhausted, text)
}

/// Checks that the process may start `count` threads now: a runtime that cannot start its threads panics.
///
/// # Errors
/// [`Cause::Exhausted`].
pub(crate) fn check_threads_available(count: usize) -> Result<(), ClusterError> {
    let mut started = Vec::with_capacity(count);
    let mut failed = None;
    for _ in 0..count {
        // The thread ends when its sender is dropped.
        let (end, ended) = mpsc::channel::<()>();
        match std::thread::Builder::new().spawn(move || ended.recv().is_ok()) {
            Ok(thread) => started.push((end, thread)),
            Err(e) => {
                failed = Some(out_of_threads(&e));
                break;
            }
        }
    }
    for (end, thread) in started {
        drop(end);
        let _ = thread.join();
    }
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    /// A pool of which the system gives `most` threads.
    fn given(most: usize) -> (StepThreads, Arc<AtomicUsize>) {
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let start = move |work: Work| {
            if count.fetch_add(1, Ordering::SeqCst) >= most {
                return Err(io::Error::other("no more"));
            }
            std::thread::Builder::new().spawn(work).map(drop)
        };
        (
            StepThreads::with(Box::new(start), MAX_THREADS, IDLE_TIMEOUT),
            made,
        )
    }

    /// Work that signals its begin, and ends on a signal.
    fn waits() -> (Work, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel());
        let work = Box::new(move || {
            let _ = begin.send(());
            let _ = ended.recv();
        });
        (work, begun, end)
    }

    #[test]
    fn work_without_a_thread_is_refused_and_not_queued() {
        let (threads, _) = given(2);
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (work, begun, end) = waits();
            threads.run(work).unwrap();
            begun.recv().unwrap();
            ends.push(end);
        }
        let (work, begun, _end) = waits();
        let refused = threads.run(work).unwrap_err();
        assert_eq!(refused.cause, Cause::Exhausted);
        assert!(refused.message.contains("ulimit -u, pids.max"), "{refused}");
        // The refusal has dropped the work.
        assert!(begun.recv().is_err());
        // A free thread takes more work.
        ends.pop();
        let begun = loop {
            let (work, begun, _) = waits();
            match threads.run(work) {
                Ok(()) => break begun,
                Err(_) => std::thread::yield_now(),
            }
        };
        begun.recv().unwrap();
    }

    #[test]
    fn threads_are_reused_and_end_when_idle() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let start = move |work: Work| {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::Builder::new().spawn(work).map(drop)
        };
        let threads = StepThreads::with(Box::new(start), MAX_THREADS, Duration::from_millis(100));
        for _ in 0..100 {
            let (done, is_done) = mpsc::channel::<()>();
            threads.run(Box::new(move || drop(done))).unwrap();
            assert!(is_done.recv().is_err());
        }
        // A thread may start before the previous one is idle again.
        assert!(made.load(Ordering::SeqCst) < 50, "{made:?}");
        while threads.0.state().count > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(threads.0.state().idle, 0);
    }

    #[test]
    fn work_that_panics_leaves_its_thread() {
        let (threads, _) = given(1);
        threads.run(Box::new(|| panic!("a test"))).unwrap();
        let done = loop {
            let (done, is_done) = mpsc::channel::<()>();
            match threads.run(Box::new(move || drop(done))) {
                Ok(()) => break is_done,
                Err(_) => std::thread::yield_now(),
            }
        };
        assert!(done.recv().is_err());
    }

    #[test]
    fn accepted_work_always_runs() {
        let (threads, _) = given(3);
        let (ran, mut accepted) = (Arc::new(AtomicUsize::new(0)), 0);
        for _ in 0..10_000 {
            let ran = ran.clone();
            let work = move || {
                ran.fetch_add(1, Ordering::SeqCst);
            };
            accepted += usize::from(threads.run(Box::new(work)).is_ok());
        }
        while ran.load(Ordering::SeqCst) < accepted {
            std::thread::yield_now();
        }
        assert!(accepted >= 3);
    }

    /// Measures the latency of work on this pool and on tokio's.
    #[test]
    #[ignore = "it measures"]
    fn handing_over() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let threads = StepThreads::new();
        let median = |hand_over: &dyn Fn(Work)| {
            let mut times: Vec<Duration> = (0..20_000)
                .map(|_| {
                    let begun = Instant::now();
                    let (done, is_done) = tokio::sync::oneshot::channel();
                    hand_over(Box::new(move || done.send(()).unwrap()));
                    runtime.block_on(is_done).unwrap();
                    begun.elapsed()
                })
                .collect();
            times.sort_unstable();
            times[times.len() / 2]
        };
        for _ in 0..3 {
            let own = median(&|work| threads.run(work).unwrap());
            let tokios = median(&|work| drop(runtime.spawn_blocking(work)));
            println!("own {own:?}, tokio's {tokios:?}");
        }
    }

    #[test]
    fn work_beyond_the_maximum_of_threads_is_refused() {
        let start = |work: Work| std::thread::Builder::new().spawn(work).map(drop);
        let threads = StepThreads::with(Box::new(start), 1, IDLE_TIMEOUT);
        let (work, begun, _end) = waits();
        threads.run(work).unwrap();
        begun.recv().unwrap();
        let refused = threads.run(Box::new(|| ())).unwrap_err();
        assert_eq!((refused.cause, threads.count()), (Cause::Exhausted, (1, 0)));
        assert!(refused.message.contains("1 threads for steps"), "{refused}");
    }

    #[test]
    fn only_threads_of_the_pool_may_block() {
        let (threads, _) = given(1);
        let (tell, told) = mpsc::channel();
        let work = move || tell.send(may_block()).unwrap();
        threads.run(Box::new(work)).unwrap();
        assert_eq!((told.recv(), may_block()), (Ok(true), false));
    }

    #[test]
    fn idle_threads_end_with_the_pool() {
        let (tell, told) = mpsc::channel();
        let start = move |work: Work| {
            let tell = tell.clone();
            let thread = move || {
                work();
                let _ = tell.send(());
            };
            std::thread::Builder::new().spawn(thread).map(drop)
        };
        let hour = Duration::from_secs(3600);
        let threads = StepThreads::with(Box::new(start), 8, hour);
        let (work, begun, end) = waits();
        threads.run(work).unwrap();
        begun.recv().unwrap();
        assert!(told.try_recv().is_err());
        drop((threads, end));
        told.recv_timeout(hour / 60).unwrap();
    }
}
