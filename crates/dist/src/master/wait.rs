//! Waiting for an answer.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// How long an answer is looked for before the thread sleeps: to be woken takes some tens of
/// microseconds, as long as the way of a small step to another task and back.
const LOOK: Duration = Duration::from_micros(200);

/// Notes that there is something to do.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs `work` to its end on this thread, which must not be one of the runtime's.
pub(super) fn block_on<T>(runtime: &Handle, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    {
        let _context = runtime.enter();
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(flag.clone());
        let began = Instant::now();
        loop {
            if flag.0.swap(false, Ordering::AcqRel)
                && let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return done;
            }
            if began.elapsed() > LOOK {
                break;
            }
            // Others may need the processor for what is waited for.
            std::thread::yield_now();
        }
    }
    runtime.block_on(work)
}
