//! Blocks a thread on asynchronous work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use thalweg_session::Parker;
use tokio::runtime::Handle;

use super::platform::Platform;
use super::threads::{may_block, out_of_threads};
use crate::error::{Cause, ClusterError};

/// Time of polling before the thread sleeps: to be woken takes some tens of microseconds, as long as the round trip
/// of a small step to another task.
const SPIN_TIME: Duration = Duration::from_micros(200);

/// Waker of a thread that polls: sets a flag.
struct WokenFlag(AtomicBool);

impl Wake for WokenFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs `work`, which is of this platform's runtime, to its end. May be called on any thread.
pub(crate) fn block_on<T: Send>(
    platform: &dyn Platform,
    work: impl Future<Output = Result<T, ClusterError>> + Send,
) -> Result<T, ClusterError> {
    let runtime = platform.runtime();
    let parker = platform.parker();
    let may_block = parker.is_some() || may_block() || Handle::try_current().is_err();
    let run = || {
        // A runtime that is being shut down panics where a timer is awaited.
        let done = catch_unwind(AssertUnwindSafe(|| match parker {
            Some(parker) => poll_and_park(runtime, parker, work),
            None => spin_then_block(runtime, work),
        }));
        let text = "a defect: a step panicked. Please report it";
        done.unwrap_or_else(|_| Err(ClusterError::new(Cause::Internal, text)))
    };
    match may_block {
        true => run(),
        // A thread of the runtime may not block on its work: a thread of its own does.
        false => std::thread::scope(|scope| {
            let text = "a defect: a thread panicked. Please report it";
            let panicked = |_| Err(ClusterError::new(Cause::Internal, text));
            match std::thread::Builder::new().spawn_scoped(scope, run) {
                Ok(thread) => thread.join().unwrap_or_else(panicked),
                Err(e) => Err(out_of_threads(&e)),
            }
        }),
    }
}

/// Waker of a thread that waits with a parker.
struct ParkerWaker(Arc<dyn Parker>);

impl Wake for ParkerWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `work` to its end on this thread, which waits with `parker`.
fn poll_and_park<T>(runtime: &Handle, parker: Arc<dyn Parker>, work: impl Future<Output = T>) -> T {
    let _context = runtime.enter();
    let waker = Waker::from(Arc::new(ParkerWaker(parker.clone())));
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        parker.park();
    }
}

/// Runs `work` to its end on this thread, which must not be one of the runtime: polls for a while, then blocks.
fn spin_then_block<T>(runtime: &Handle, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    {
        let _context = runtime.enter();
        let flag = Arc::new(WokenFlag(AtomicBool::new(true)));
        let waker = Waker::from(flag.clone());
        let began = Instant::now();
        loop {
            if flag.0.swap(false, Ordering::AcqRel)
                && let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return done;
            }
            if began.elapsed() > SPIN_TIME {
                break;
            }
            // The awaited work may need the processor.
            std::thread::yield_now();
        }
    }
    runtime.block_on(work)
}

#[cfg(test)]
mod tests {
    use crate::runtime::platform::system;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;

    use super::*;

    fn runtime() -> (Runtime, Arc<dyn Platform>) {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let platform = system(runtime.handle().clone());
        (runtime, platform)
    }

    /// Blocks on work that another thread ends.
    fn blocks(platform: &dyn Platform) -> Result<u64, ClusterError> {
        let (give, given) = oneshot::channel();
        std::thread::spawn(move || give.send(7));
        block_on(platform, async {
            given.await.map_err(|e| ClusterError::defect(&e))
        })
    }

    #[test]
    fn a_thread_of_any_kind_may_block_on_work() {
        let (runtime, platform) = runtime();
        assert_eq!(blocks(&*platform), Ok(7));
        let own = platform.clone();
        let inside = runtime.spawn(async move { blocks(&*own) });
        assert_eq!(runtime.block_on(inside).unwrap(), Ok(7));
        let own = platform.clone();
        let of_pool = platform.run_compute(move || blocks(&*own));
        assert_eq!(runtime.block_on(of_pool), Ok(Ok(7)));
    }

    #[test]
    fn an_error_of_the_work_is_returned_and_a_panic_is_a_defect() {
        let (_runtime, platform) = runtime();
        let failed = block_on::<()>(&*platform, async {
            Err(ClusterError::new(Cause::Silent, "no answer"))
        });
        assert_eq!(failed.unwrap_err().cause, Cause::Silent);
        let panicked = block_on::<()>(&*platform, async { panic!("a test") });
        assert_eq!(panicked.unwrap_err().cause, Cause::Internal);
    }

    /// A parker that counts.
    #[derive(Default)]
    struct CountingParker(AtomicUsize);

    impl Parker for CountingParker {
        fn park(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn unpark(&self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_thread_with_a_parker_waits_with_it() {
        let (runtime, _) = runtime();
        let parker = Arc::new(CountingParker::default());
        let mut left = 3;
        let work = poll_fn(|cx| {
            left -= 1;
            match left {
                0 => Poll::Ready(()),
                // The last wait has no waker.
                1 => Poll::Pending,
                _ => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        });
        poll_and_park(runtime.handle(), parker.clone(), work);
        assert_eq!(parker.0.load(Ordering::SeqCst), 1);
    }
}
