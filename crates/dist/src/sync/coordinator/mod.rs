//! Coordinator of synchronous training: hands out turns and updates the variables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use thalweg_graph::Operation;
use thalweg_optim::Synchronized;
use thalweg_session::{Feed, Feeding, Fetched, Fetches, RunOptions};
use tokio::time::{Instant, sleep};

use super::replica::{RETRY_AFTER, retry_time};
use crate::cluster::spec::task_label;
use crate::error::{Cause, ClusterError};
use crate::server::Server;
use crate::session::Session;
use crate::transport::messages::Once;
use crate::worker::state::Worker;
use crate::worker::turns::{RoundSize, TrainingTurns};

/// Interval of the checks for present workers.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Number of bits of a token that count the turns of one microsecond.
const TOKEN_COUNTER_BITS: u32 = 10;
/// Increase of the token if another coordinator had a greater one: a clock was set back.
const TOKEN_SKIP: i64 = 1 << 44;

/// Coordinates the workers of `job` and updates the variables, until the global step is `last` or all workers are
/// done. To be called on the task that has the global step.
///
/// Another program initializes the variables. A lost server is waited for, for [`crate::Timeouts::server_recovery`];
/// a restarted one ends this with an error, as its values are lost: see [`Coordinator`], which can go on.
///
/// A worker that is away for [`crate::Timeouts::worker_rejoin`] does not block an update: the others get the turns
/// that it still needs. A worker that comes back gets turns again.
///
/// # Errors
/// As [`Session::run`], if the variables are not reached.
pub fn coordinate<'g>(
    server: &Server,
    session: &Session<'g>,
    sync: &Synchronized<'g>,
    job: &str,
    last: i64,
) -> Result<(), ClusterError> {
    let mut coordinator = Coordinator::new(server, sync, job)?;
    session.block_on(coordinator.until(session, last))
}

/// Coordinator of one training, one update at a time. To be made on the task that has the global step.
///
/// An update happens on all servers or on none. If [`Coordinator::update`] fails, the variables may have to be
/// restored; it can be called again then. So a training that survives losses of servers runs it in a monitored
/// session:
///
/// ```no_run
/// use thalweg_dist::{ClusterError, ClusterOptions, Server, Session, sync::Coordinator};
/// use thalweg_graph::Graph;
/// use thalweg_optim::Synchronized;
/// use thalweg_train::{MonitoredTrainingSession, TrainError};
///
/// fn coordinate<'g>(
///     server: &Server,
///     g: &'g Graph,
///     training: &Synchronized<'g>,
///     folder: &str,
///     last: i64,
/// ) -> Result<(), TrainError> {
///     let mut coordinator = Coordinator::new(server, training, "worker")?;
///     let mut session = MonitoredTrainingSession::new(g)
///         .checkpoint_dir(folder)
///         .start(|| Session::on(server, g, ClusterOptions::new().device_filter("/job:ps")))?;
///     while session.global_step()?.unwrap_or(0) < last {
///         if session.run_step_fn(|s| coordinator.update(s))?.is_none() {
///             break;
///         }
///     }
///     // The last checkpoint, before the workers learn of the end.
///     let saved = session.close();
///     coordinator.close();
///     saved
/// }
/// ```
pub struct Coordinator<'c, 'g> {
    task: Arc<Worker>,
    sync: &'c Synchronized<'g>,
    /// Job of the workers.
    job: String,
    turns: Arc<TrainingTurns>,
    /// Token of the current turn.
    token: i64,
    /// Global step. `None` if the training has to begin, or to begin again.
    step: Option<i64>,
    /// Time at which each worker was last present.
    seen: BTreeMap<u32, Instant>,
    began: Instant,
}

impl<'c, 'g> Coordinator<'c, 'g> {
    /// Returns the coordinator of this training, whose workers are the tasks of `job`.
    ///
    /// # Errors
    /// The server is not the task that has the global step.
    pub fn new(
        server: &Server,
        sync: &'c Synchronized<'g>,
        job: &str,
    ) -> Result<Coordinator<'c, 'g>, ClusterError> {
        Coordinator::on(server.worker(), sync, job)
    }

    /// Returns the coordinator on this task.
    ///
    /// # Errors
    /// As [`Coordinator::new`].
    pub(crate) fn on(
        task: &Arc<Worker>,
        sync: &'c Synchronized<'g>,
        job: &str,
    ) -> Result<Coordinator<'c, 'g>, ClusterError> {
        let place = &sync.coordinator;
        let (own, index) = &task.task;
        if place.job.as_deref().is_some_and(|j| j != own) || place.task.is_some_and(|t| t != *index)
        {
            return Err(ClusterError::invalid(format!(
                "the training is coordinated by the task that has the global step, {place}, and not by \
                 {}",
                task_label(own, *index)
            )));
        }
        Ok(Coordinator {
            turns: task.turns.of(&sync.name)?,
            task: task.clone(),
            sync,
            job: job.to_owned(),
            token: 0,
            step: None,
            seen: BTreeMap::new(),
            began: Instant::now(),
        })
    }

    /// Waits for the gradients of one turn and updates the variables. Returns the new global step. `None` if all
    /// workers have finished.
    ///
    /// # Errors
    /// As [`Session::run`]. The workers wait until it is called again.
    pub fn update(&mut self, session: &Session<'g>) -> Result<Option<i64>, ClusterError> {
        session.block_on(self.update_async(session))
    }

    /// Ends the training: workers that ask for a turn get the response that it is over.
    pub fn close(&mut self) {
        self.turns.close();
    }

    /// See [`coordinate`].
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn until(
        &mut self,
        session: &Session<'g>,
        last: i64,
    ) -> Result<(), ClusterError> {
        let updates = async {
            // Somebody else gives the variables their values.
            while let Err(e) = self.expect_ready(session).await {
                if e.cause != Cause::Uninitialized || self.is_done() {
                    return Err(e);
                }
                sleep(RETRY_AFTER).await;
            }
            while self.begun(session).await? < last {
                if self.update_async(session).await?.is_none() {
                    break;
                }
            }
            Ok(())
        };
        let ended = updates.await;
        match ended {
            // The other servers may have ended, as the workers have.
            Err(e) if !self.is_done() => Err(e),
            _ => {
                self.close();
                Ok(())
            }
        }
    }

    /// See [`Coordinator::update`].
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn update_async(
        &mut self,
        session: &Session<'g>,
    ) -> Result<Option<i64>, ClusterError> {
        match self.turn(session).await {
            // The other servers may have ended, as the workers have.
            Err(_) if self.is_done() => Ok(None),
            Err(e) => {
                self.step = None;
                self.turns
                    .end(format!("the coordinator has met an error: {}", e.message));
                Err(e)
            }
            updated => updated,
        }
    }

    async fn turn(&mut self, session: &Session<'g>) -> Result<Option<i64>, ClusterError> {
        let step = self.begun(session).await?;
        let wanted = RoundSize {
            workers: self.sync.workers,
            aggregate: self.sync.aggregate,
        };
        self.turns.begin(self.token, step, wanted);
        if !self.filled(session).await? {
            return Ok(None);
        }
        self.turns.end("the variables are being updated");
        let (token, next) = (self.token, self.token + 1);
        let feeds = [self.sync.token.feed(token)];
        self.surely(session, UpdateWork::Run(self.sync.prepare), &feeds)
            .await?;
        let feeds = [self.sync.token.feed(token), self.sync.next_token.feed(next)];
        let commit = UpdateWork::Once(&self.sync.commit, next);
        self.surely(session, commit, &feeds).await?;
        (self.token, self.step) = (next, Some(step + 1));
        Ok(self.step)
    }

    /// Returns the global step of the current turn; starts the first one.
    async fn begun(&mut self, session: &Session<'g>) -> Result<i64, ClusterError> {
        if let Some(step) = self.step {
            return Ok(step);
        }
        self.expect_ready(session).await?;
        let step = self.fetched(session, &self.sync.global_step).await?;
        let step = step.scalar::<i64>(0).map_err(ClusterError::from)?;
        let now = i64::try_from(self.task.platform.unix_micros() << TOKEN_COUNTER_BITS)
            .unwrap_or(i64::MAX / 2);
        self.token = now.max(self.token + 1);
        loop {
            let feeds = [self.sync.token.feed(self.token)];
            let begin = UpdateWork::Once(&self.sync.begin, self.token);
            match self.surely(session, begin, &feeds).await {
                Err(e) if e.cause == Cause::Refused && self.token < i64::MAX / 2 => {
                    self.token += TOKEN_SKIP;
                }
                Err(e) => return Err(e),
                Ok(()) => break,
            }
        }
        self.step = Some(step);
        Ok(step)
    }

    /// Waits for the gradients of the turn. `false` if the workers finish before.
    async fn filled(&mut self, session: &Session<'g>) -> Result<bool, ClusterError> {
        loop {
            if tokio::time::timeout(POLL_INTERVAL, self.turns.full())
                .await
                .is_ok()
            {
                return Ok(true);
            }
            if self.is_done() {
                return Ok(false);
            }
            self.update_presence(session)?;
            // Workers cannot give gradients to a server that has lost its variables.
            if !session.steps().is_intact() {
                self.expect_ready(session).await?;
            }
        }
    }

    /// Checks that all variables still have values.
    ///
    /// # Errors
    /// [`Cause::Uninitialized`].
    async fn expect_ready(&self, session: &Session<'g>) -> Result<(), ClusterError> {
        let ready = self.fetched(session, &self.sync.ready).await?;
        match ready.scalar::<bool>(0)? {
            true => Ok(()),
            false => Err(ClusterError::new(
                Cause::Uninitialized,
                "a server was started anew: restore the variables",
            )),
        }
    }

    /// Updates the presence of the workers.
    ///
    /// # Errors
    /// No worker was present for long.
    fn update_presence(&mut self, session: &Session<'g>) -> Result<(), ClusterError> {
        let timeouts = session.timeouts();
        let now = Instant::now();
        for (worker, asked) in self.turns.asked() {
            let seen = self.seen.entry(worker).or_insert(asked);
            *seen = asked.max(*seen);
        }
        for worker in self.task.present(&self.job) {
            self.seen.insert(worker, now);
        }
        let finished = self.task.finished(&self.job);
        let gone = |w: &u32| now - *self.seen.get(w).unwrap_or(&self.began);
        let away = |w: &u32| finished.contains(w) || gone(w) > timeouts.worker_rejoin;
        let workers = 0..self.sync.workers;
        let longest = workers
            .clone()
            .filter(|w| !finished.contains(w))
            .map(|w| gone(&w))
            .min();
        if longest.is_some_and(|gone| gone > timeouts.server_recovery) {
            let text = format!(
                "no worker of /job:{} has been there for {:.1} s",
                self.job,
                timeouts.server_recovery.as_secs_f64()
            );
            return Err(ClusterError::new(Cause::Silent, text));
        }
        let away: BTreeSet<u32> = workers.filter(away).collect();
        self.turns.away(away);
        Ok(())
    }

    /// `true` if all workers have finished.
    fn is_done(&self) -> bool {
        self.task.finished(&self.job).len() >= self.sync.workers as usize
    }

    async fn fetched(
        &self,
        session: &Session<'g>,
        fetches: &impl Fetches,
    ) -> Result<Fetched, ClusterError> {
        let mut since = None;
        loop {
            let options = limited(session);
            match session.step_async(fetches, &[], &options).await {
                Ok((fetched, _)) => return Ok(fetched),
                Err(e) => self.passes(session, e, &mut since).await?,
            }
        }
    }

    /// Repeats idempotent work until it is known to be done.
    ///
    /// # Errors
    /// It fails, or does not succeed in time.
    async fn surely(
        &self,
        session: &Session<'g>,
        work: UpdateWork<'_, 'g>,
        feeds: &[Feed<'_>],
    ) -> Result<(), ClusterError> {
        let mut since = None;
        loop {
            let options = limited(session);
            let done = match &work {
                UpdateWork::Run(operation) => {
                    let run = session.step_async(operation, feeds, &options);
                    run.await.map(|_| ())
                }
                UpdateWork::Once(operations, stamp) => {
                    let once = Once {
                        name: self.sync.name.clone(),
                        stamp: u64::try_from(*stamp).unwrap_or(0),
                    };
                    session.once_async(operations, feeds, &options, once).await
                }
            };
            match done {
                Ok(()) => return Ok(()),
                Err(e) => self.passes(session, e, &mut since).await?,
            }
        }
    }

    /// Waits a moment if the error may pass: no values of variables are lost.
    ///
    /// # Errors
    /// The error does not pass, or has lasted too long.
    async fn passes(
        &self,
        session: &Session<'g>,
        error: ClusterError,
        since: &mut Option<Instant>,
    ) -> Result<(), ClusterError> {
        let since = *since.get_or_insert_with(Instant::now);
        let outage = session.timeouts().server_recovery;
        let most = match error.cause {
            Cause::Restarted => Duration::ZERO,
            Cause::Deadline => outage,
            cause => retry_time(cause, outage),
        };
        let over = session.steps().ended() || self.is_done();
        if over || since.elapsed() >= most {
            return Err(error);
        }
        sleep(RETRY_AFTER).await;
        Ok(())
    }
}

impl Drop for Coordinator<'_, '_> {
    fn drop(&mut self) {
        self.turns.end("the coordinator has ended");
    }
}

/// Work that is repeated until it is known to be done.
enum UpdateWork<'w, 'g> {
    /// A step that may run several times.
    Run(Operation<'g>),
    /// Operations that run exactly once for a stamp.
    Once(&'w [Operation<'g>], i64),
}

/// Returns the options of a step of the coordinator.
fn limited(session: &Session<'_>) -> RunOptions {
    RunOptions::new().timeout(session.timeouts().server_recovery)
}

#[cfg(test)]
mod tests;
