//! Threads, time and random numbers of a task. They come by argument, so that tests can run a cluster in simulated
//! time.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::SystemTime;

use thalweg_session::{Cancel, Parker};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tonic::codegen::BoxFuture;

use super::threads::{StepThreads, Work};
use crate::error::ClusterError;

/// Work that may wait, on the parker that it is given.
pub(crate) type StepWork = Box<dyn FnOnce(Option<Arc<dyn Parker>>) + Send>;
/// Completion of work. It fails if the work has panicked, or if the system gives no thread.
pub(crate) type WorkFuture = BoxFuture<(), ClusterError>;

/// Threads and random numbers of a task. Time is tokio's.
pub(crate) trait Platform: Send + Sync {
    /// Returns the runtime of the network's work.
    fn runtime(&self) -> &Handle;

    /// Starts a long computation on a thread of its own, at once or not at all.
    fn spawn_compute(&self, work: Work) -> WorkFuture;

    /// Starts a part of a step. A part that is short and never waits may run on the calling thread. A drop of the
    /// future does not end the part; `cancel` does.
    fn spawn_step(&self, short: bool, cancel: &Cancel, work: StepWork) -> WorkFuture;

    /// Returns the number of threads that run parts of steps, and of those that wait for such work.
    fn threads(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Returns a random number that cannot be guessed.
    fn random_u64(&self) -> u64;

    /// Returns the time, in microseconds since 1970.
    fn unix_micros(&self) -> u64;

    /// Returns the parker of the computation on this thread, if the thread may not just sleep.
    fn parker(&self) -> Option<Arc<dyn Parker>>;
}

impl dyn Platform {
    /// Runs a long computation and returns its result.
    ///
    /// # Errors
    /// It has panicked, or the system gives no thread.
    pub(crate) async fn run_compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ClusterError> {
        let (give, given) = oneshot::channel();
        let under = self.spawn_compute(Box::new(move || {
            let _ = give.send(work());
        }));
        under.await?;
        given.await.map_err(|e| ClusterError::defect(&e))
    }

    /// Runs a part of a step and returns its result.
    ///
    /// # Errors
    /// It has panicked, or the system gives no thread.
    pub(crate) async fn run_step<T: Send + 'static>(
        &self,
        short: bool,
        cancel: &Cancel,
        work: impl FnOnce(Option<Arc<dyn Parker>>) -> T + Send + 'static,
    ) -> Result<T, ClusterError> {
        let (give, given) = oneshot::channel();
        let work = Box::new(move |parker: Option<Arc<dyn Parker>>| {
            // The receiver may be gone: the result is then not needed.
            let _ = give.send(work(parker));
        });
        self.spawn_step(short, cancel, work).await?;
        given.await.map_err(|e| ClusterError::defect(&e))
    }
}

/// Platform of a real machine.
struct SystemPlatform {
    runtime: Handle,
    threads: StepThreads,
    random: RandomState,
}

/// Returns the platform of this machine, with the threads of a runtime.
pub(crate) fn system(runtime: Handle) -> Arc<dyn Platform> {
    let random = RandomState::new();
    Arc::new(SystemPlatform {
        runtime,
        threads: StepThreads::new(),
        random,
    })
}

impl Platform for SystemPlatform {
    fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn spawn_compute(&self, work: Work) -> WorkFuture {
        let (give, done) = oneshot::channel();
        let runtime = self.runtime.clone();
        let begun = self.threads.run(Box::new(move || {
            let _context = runtime.enter();
            work();
            // Not sent if the work has panicked.
            let _ = give.send(());
        }));
        Box::pin(async move {
            begun?;
            done.await
                .map_err(|_| ClusterError::defect(&"a step's work has panicked"))
        })
    }

    fn spawn_step(&self, short: bool, _: &Cancel, work: StepWork) -> WorkFuture {
        if short {
            work(None);
            return Box::pin(std::future::ready(Ok(())));
        }
        self.spawn_compute(Box::new(|| work(None)))
    }

    fn threads(&self) -> (usize, usize) {
        let (all, idle) = self.threads.count();
        (all - idle, idle)
    }

    fn random_u64(&self) -> u64 {
        // Each state has keys of its own; a single hasher would give the same number each time.
        RandomState::new().hash_one(self.random.hash_one(0))
    }

    fn unix_micros(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let micros = since.unwrap_or_default().as_micros();
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    fn parker(&self) -> Option<Arc<dyn Parker>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Cause;
    use std::collections::BTreeSet;
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn platform() -> (Runtime, Arc<dyn Platform>) {
        let runtime = Builder::new_current_thread().build().unwrap();
        let platform = system(runtime.handle().clone());
        (runtime, platform)
    }

    #[test]
    fn a_short_part_runs_on_the_calling_thread() {
        let (runtime, platform) = platform();
        let cancel = Cancel::new();
        for short in [true, false] {
            let run = platform.run_step(short, &cancel, |parker| {
                (std::thread::current().id(), parker.is_none())
            });
            let (thread, no_parker) = runtime.block_on(run).unwrap();
            assert_eq!(thread == std::thread::current().id(), short);
            assert!(no_parker);
        }
    }

    #[test]
    fn a_computation_that_panics_is_a_defect() {
        let (runtime, platform) = platform();
        let run = platform.run_compute(|| panic!("a test"));
        let panicked: Result<(), ClusterError> = runtime.block_on(run);
        assert_eq!(panicked.unwrap_err().cause, Cause::Internal);
        assert_eq!(runtime.block_on(platform.run_compute(|| 5)), Ok(5));
    }

    #[test]
    fn random_numbers_differ() {
        let (_runtime, platform) = platform();
        let numbers: BTreeSet<u64> = (0..100).map(|_| platform.random_u64()).collect();
        assert_eq!(numbers.len(), 100);
    }
}
