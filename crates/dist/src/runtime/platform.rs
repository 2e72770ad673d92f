//! What a task stands on: threads, connections and random numbers. They come by argument, so that a
//! cluster can also be run on a network and a time that are simulated.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::SystemTime;

use thalweg_session::{Cancel, Parker};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tonic::codegen::BoxFuture;

use super::threads::{StepThreads, Work};
use crate::error::ClusterError;

/// Work that may wait, by the means that it is given.
pub(crate) type StepWork = Box<dyn FnOnce(Option<Arc<dyn Parker>>) + Send>;
/// Work that is under way; it fails where the work has panicked, or no thread can be had for it.
pub(crate) type WorkFuture = BoxFuture<(), ClusterError>;

/// What a task stands on. Time is tokio's.
pub(crate) trait Platform: Send + Sync {
    /// Where the network's work runs.
    fn runtime(&self) -> &Handle;

    /// Runs what computes for long, beside the network's work: now, or not at all.
    fn spawn_compute(&self, work: Work) -> WorkFuture;

    /// Runs a part of a step; one that is short and never waits may run at once. Where this is dropped
    /// the part may still run; `cancel` ends it.
    fn spawn_step(&self, short: bool, cancel: &Cancel, work: StepWork) -> WorkFuture;

    /// How many threads run parts of steps, and how many more wait for such work.
    fn threads(&self) -> (usize, usize) {
        (0, 0)
    }

    /// A number that nobody can guess.
    fn random_u64(&self) -> u64;

    /// The time, in microseconds since 1970.
    fn unix_micros(&self) -> u64;

    /// How the work that runs apart on this thread waits, where its thread may not just sleep.
    fn parker(&self) -> Option<Arc<dyn Parker>>;
}

impl dyn Platform {
    /// What `work` gives, which computes for long.
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

    /// What a part gives.
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
            // Where nobody waits for it any more, nobody needs it.
            let _ = give.send(work(parker));
        });
        self.spawn_step(short, cancel, work).await?;
        given.await.map_err(|e| ClusterError::defect(&e))
    }
}

/// See [`system`].
struct SystemPlatform {
    runtime: Handle,
    threads: StepThreads,
    random: RandomState,
}

/// This machine, with a runtime's threads.
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
            // Not sent where the work has panicked.
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
        // Each state has keys of its own; a hasher alone would give one number.
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
