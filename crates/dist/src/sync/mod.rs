//! Training in step, over a cluster: see [`thalweg_train::SyncReplicas`].
//!
//! Each worker gives gradients, and one task of the cluster applies their mean. Here one server is both:
//!
//! ```
//! use thalweg_dist::{ClusterOptions, Server, ServerOptions, Session, sync};
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, StateOps};
//! use thalweg_train::{GradientDescent, SyncReplicas, create_global_step};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
//! let g = Graph::new();
//! let w = g.variable("w", 4.0f32);
//! let loss = w.value().square();
//! let one = SyncReplicas::new(GradientDescent::new(0.25), 1);
//! let training = one.minimize(loss, create_global_step(&g));
//! let session = Session::on(&server, &g, ClusterOptions::default())?;
//! session.run(g.initializers(), [])?;
//!
//! // Two updates, each of one gradient of worker 0.
//! let steps = std::thread::scope(|scope| {
//!     let coordinator = scope.spawn(|| sync::coordinate(&server, &session, &training, "localhost", 2));
//!     let mut steps = 0;
//!     while sync::give::<f32>(&session, &training, 0, loss, [])?.is_some() {
//!         steps += 1;
//!     }
//!     coordinator.join().expect("no panic")?;
//!     Ok::<_, thalweg_dist::ClusterError>(steps)
//! })?;
//! assert!(steps >= 2);
//! assert_eq!(session.run::<f32>(w, [])?, 1.0);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_session::{Feed, Feeding, FetchList, Fetched, Fetches, FetchesAs, RunOptions, Values};
use thalweg_train::Synchronized;
use tokio::time::{Instant, sleep};

use crate::error::{Cause, ClusterError};
use crate::server::Server;
use crate::session::Session;
use crate::worker::Worker;

/// How long gradients are waited for before the coordinator looks who is there.
const LOOK: Duration = Duration::from_millis(200);

/// After how many looks without gradients turns are given anew. One too many does no harm: gradients
/// that come late are dropped.
const SILENT: u32 = 10;

/// Waits for this worker's turn; then computes its gradients and gives them, and gives what else is
/// fetched, as what it is asked for (see [`FetchesAs`]), and the global step that they began from.
/// None where the training is over.
///
/// # Errors
/// As [`Session::run`].
pub fn give<'f, R>(
    session: &Session<'_>,
    sync: &Synchronized<'_>,
    worker: u32,
    fetches: impl FetchesAs<R> + Sync,
    feeds: impl AsRef<[Feed<'f>]>,
) -> Result<Option<(R, i64)>, ClusterError> {
    let feeds = feeds.as_ref().to_vec();
    let given = session.waited(give_async(session, sync, worker, &fetches, feeds))?;
    let Some((fetched, step)) = given else {
        return Ok(None);
    };
    let list = FetchList::of(&fetches, session.graph())?;
    let mut values = Values::new(&list, fetched.into_values().collect());
    Ok(Some((fetches.take(&mut values)?, step)))
}

/// As [`give`], for who runs on the threads of the network.
pub(crate) async fn give_async<'f>(
    session: &Session<'_>,
    sync: &Synchronized<'f>,
    worker: u32,
    fetches: &(impl Fetches + Sync),
    mut feeds: Vec<Feed<'f>>,
) -> Result<Option<(Fetched, i64)>, ClusterError> {
    let options = RunOptions::default();
    let (turn, give) = (
        sync.turn.get(worker as usize),
        sync.give.get(worker as usize),
    );
    let (Some(turn), Some(give)) = (turn, give) else {
        return Err(ClusterError::invalid(format!(
            "there is no worker {worker}"
        )));
    };
    let step = match session.step_async(turn, &[], &options).await {
        Ok(step) => step.scalar::<i64>(0).map_err(ClusterError::from)?,
        // The turns were closed.
        Err(e) if e.cause == Cause::OutOfRange => return Ok(None),
        Err(e) => return Err(e),
    };
    feeds.push(sync.local_step.feed(step));
    // What is only run has no value.
    let all = (fetches, *give);
    let fetched = session.step_async(&all, &feeds, &options).await?;
    Ok(Some((fetched, step)))
}

/// Gives the workers of `job` their turns and updates the variables, until the global step is `last` or
/// all workers are done. To be called on one task that outlives the others: the first parameter server.
///
/// A worker that dies takes no turn with it: those that are left get the turns that an update still
/// needs. One that comes back gets turns again.
///
/// # Errors
/// As [`Session::run`], where the variables or the turns are not reached.
pub fn coordinate<'g>(
    server: &Server,
    session: &Session<'g>,
    sync: &Synchronized<'g>,
    job: &str,
    last: i64,
) -> Result<(), ClusterError> {
    let coordinator = Coordinator {
        task: server.worker(),
        session,
        sync,
        job,
    };
    session.waited(coordinator.coordinate(last))
}

/// The one task that gives turns: see [`coordinate`].
pub(crate) struct Coordinator<'c, 'g> {
    pub(crate) task: &'c Worker,
    pub(crate) session: &'c Session<'g>,
    pub(crate) sync: &'c Synchronized<'g>,
    /// The job of the workers.
    pub(crate) job: &'c str,
}

impl<'g> Coordinator<'_, 'g> {
    /// See [`coordinate`].
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn coordinate(&self, last: i64) -> Result<(), ClusterError> {
        match self.turns(last).await {
            // The other servers may have ended, as the workers have.
            Err(_) if self.is_done() => Ok(()),
            result => result,
        }
    }

    /// Whether all workers have said that they are.
    fn is_done(&self) -> bool {
        self.task.finished(self.job).len() >= self.sync.grant.len()
    }

    async fn turns(&self, last: i64) -> Result<(), ClusterError> {
        let sync = self.sync;
        let present = || self.task.present(self.job);
        // At first all of them are waited for: one that is alone would give the gradients of all.
        let began = Instant::now();
        let start = self.session.patience().start;
        while present().len() < sync.grant.len() && began.elapsed() < start {
            if self.is_done() {
                return Ok(());
            }
            sleep(LOOK / 20).await;
        }
        // Somebody else makes the variables.
        while !self
            .run(&sync.ready)
            .await?
            .scalar::<bool>(0)
            .map_err(ClusterError::from)?
        {
            if self.is_done() {
                return Ok(());
            }
            sleep(LOOK / 20).await;
        }
        self.run(&sync.begin).await?;
        let mut known = BTreeSet::new();
        let mut silent = 0;
        let look = RunOptions::new().timeout(LOOK);
        while !self.is_done() && self.step().await? < last {
            // Who has come or gone changes who has to give how much.
            let now = present();
            if now != known {
                known = now;
                let missing = sync.aggregate.saturating_sub(self.least().await?);
                self.grant(&known, missing).await?;
            }
            match self.session.step_async(&sync.given, &[], &look).await {
                Err(e) if e.cause != Cause::Deadline => return Err(e),
                // None has come, or one that was taken too late to be told.
                Err(_) => silent += 1,
                Ok(_) => silent = 0,
            }
            let found = self.least().await?;
            if found >= sync.aggregate {
                self.run(&sync.update).await?;
                self.grant(&known, sync.aggregate).await?;
            } else if silent >= SILENT {
                // A turn may have been taken in vain: by who failed, or came back before it was missed.
                silent = 0;
                self.grant(&known, sync.aggregate - found).await?;
            }
        }
        self.run(&sync.close).await.map(|_| ())
    }

    async fn run(&self, fetches: &impl Fetches) -> Result<Fetched, ClusterError> {
        let options = RunOptions::default();
        self.session.step_async(fetches, &[], &options).await
    }

    /// The global step.
    async fn step(&self) -> Result<i64, ClusterError> {
        let step = self.run(&self.sync.global_step).await?;
        step.scalar(0).map_err(ClusterError::from)
    }

    /// How many gradients there are of the variable that has the fewest.
    async fn least(&self) -> Result<u32, ClusterError> {
        let counts = self.run(&self.sync.counts).await?;
        let mut least = u32::MAX;
        for i in 0..self.sync.counts.len() {
            let count = counts.scalar::<i32>(i).map_err(ClusterError::from)?;
            least = least.min(u32::try_from(count).unwrap_or(0));
        }
        Ok(least)
    }

    /// Lets those that are there give so many gradients between them: each has then as many turns as all
    /// others, and those that it has not taken count.
    async fn grant(&self, present: &BTreeSet<u32>, missing: u32) -> Result<(), ClusterError> {
        let sync = self.sync;
        let there = present.iter().map(|&w| w as usize);
        let there: Vec<usize> = there.filter(|&w| w < sync.grant.len()).collect();
        if there.is_empty() {
            return Ok(());
        }
        let share = missing.div_ceil(there.len() as u32).max(1);
        let left: Vec<_> = there.iter().map(|&w| sync.turns[w]).collect();
        let left = self.run(&left).await?;
        for round in 0..share {
            let mut grants = Vec::new();
            for (i, &worker) in there.iter().enumerate() {
                let left = left.scalar::<i32>(i).map_err(ClusterError::from)?;
                if i64::from(left) <= i64::from(round) {
                    grants.push(sync.grant[worker]);
                }
            }
            if !grants.is_empty() {
                self.run(&grants).await?;
            }
        }
        Ok(())
    }
}
