//! Steps of one graph over the tasks of a cluster.

mod plans;
mod run;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_graph::{DeviceSpec, GraphData, OutputId};
use thalweg_plan::{Cutter, PlanCache};
use thalweg_session::{Cancel, Engine, Exchange, Fetch, RunOptions, SessionOptions, Trace};
use thalweg_tensor::Tensor;

use super::link::{Link, Opened, Way};
use super::wait;
use crate::error::{Cause, ClusterError};
use crate::locked::locked;
use crate::net::frames::Frames;
use crate::net::messages as wire;
use crate::net::messages::header::Kind;
use crate::platform::Platform;
use crate::processes;
use plans::{ClusterPlan, Key};
use run::Given;

/// How often a step that waits looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(10);

/// Plans and runs steps of one graph, which only grows, over several tasks.
pub(crate) struct Steps {
    inner: Arc<Inner>,
}

struct Inner {
    /// What is asked of each task. Nobody can guess the session's handle.
    asked: wire::Open,
    platform: Arc<dyn Platform>,
    engine: Engine,
    options: SessionOptions,
    /// By number of the task.
    links: Vec<Link>,
    /// Made anew when more is known of the devices.
    cutter: Mutex<Option<Arc<Cutter>>>,
    plans: PlanCache<Key, ClusterPlan>,
    next: AtomicU64,
}

/// A step in pieces that is ready to run.
pub(crate) struct Pieces(Arc<ClusterPlan>);

impl Steps {
    /// Over these tasks; where nothing says otherwise a node runs on the first. Constants are folded on
    /// `engine`.
    pub(crate) fn new(
        ways: Vec<Way>,
        engine: Engine,
        options: SessionOptions,
        isolated: bool,
        platform: Arc<dyn Platform>,
    ) -> Steps {
        let (job, index) = match ways.first() {
            Some(Way::Here(worker)) => worker.task.clone(),
            _ => (String::new(), 0),
        };
        let own = match ways.first() {
            Some(Way::Here(worker)) => Some(processes::message(&worker.task, worker.process())),
            _ => None,
        };
        Steps {
            inner: Arc::new(Inner {
                asked: wire::Open {
                    session: format!("{:016x}{:016x}", platform.number(), platform.number()),
                    isolated,
                    job,
                    index,
                    own,
                    ..wire::Open::default()
                },
                engine,
                plans: PlanCache::new(options.plans),
                options,
                links: ways.into_iter().map(Link::new).collect(),
                cutter: Mutex::default(),
                next: AtomicU64::new(platform.number()),
                platform,
            }),
        }
    }

    /// Runs a step: gives a value for each fetched output, in order, and nothing for a node that is
    /// only run; and the step's trace, which is empty unless it was asked for.
    ///
    /// # Errors
    /// What is wrong with what is asked, and what went wrong in the step.
    pub(crate) fn run(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Vec<Option<Tensor>>, Trace), ClusterError> {
        self.waited(self.run_async(data, fetches, feeds, options, None))
    }

    /// As [`Steps::run`]; dropping it ends the step. With `once` each task runs its part once for the stamp, and to
    /// its end.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn run_async(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
        once: Option<wire::Once>,
    ) -> Result<(Vec<Option<Tensor>>, Trace), ClusterError> {
        if self.ended() {
            return Err(over());
        }
        let inner = &self.inner;
        let run = async {
            let plan = inner.plan(data, fetches, feeds).await?;
            let given = Given {
                feeds,
                limit: options.timeout,
                trace: options.trace,
                client: None,
                once,
            };
            inner.parts(&plan, given).await
        };
        inner.limited(options, run).await
    }

    /// Makes a step ready whose feeds come while it runs; see [`Cutter::cut_in_pieces`].
    ///
    /// # Errors
    /// What is wrong with what is asked.
    pub(crate) fn prepare_pieces(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[OutputId],
    ) -> Result<Pieces, ClusterError> {
        let plan = self.inner.plan_in_pieces(data, fetches, feeds);
        Ok(Pieces(self.waited(plan)?))
    }

    /// Runs a step in pieces, whose other end is `client`.
    ///
    /// # Errors
    /// What went wrong in the step.
    pub(crate) fn run_pieces(
        &self,
        pieces: &Pieces,
        client: Arc<dyn Exchange>,
        options: &RunOptions,
    ) -> Result<(), ClusterError> {
        let given = Given {
            feeds: &[],
            limit: options.timeout,
            trace: false,
            client: Some(client),
            once: None,
        };
        let run = self.inner.parts(&pieces.0, given);
        self.waited(self.inner.limited(options, run)).map(|_| ())
    }

    /// Asks the coordinator of a synchronous training, which is this task, for a turn.
    ///
    /// # Errors
    /// The task is not of the session, or not reached; the training is over.
    pub(crate) async fn turn(
        &self,
        task: &DeviceSpec,
        turn: wire::Turn,
    ) -> Result<wire::TurnGiven, ClusterError> {
        let fits = |link: &&Link| {
            let (job, index) = link.way.task();
            task.job.as_deref().is_none_or(|j| j == job) && task.task.is_none_or(|t| t == *index)
        };
        let found = self.inner.links.iter().find(fits).ok_or_else(|| {
            ClusterError::invalid(format!(
                "the session does not use {task}, which coordinates the training: leave it in the device filters"
            ))
        });
        match &found?.way {
            Way::Here(worker) => {
                let patience = worker.peers.reach.patience.silence / 2;
                worker.turns.ask(&turn, patience).await
            }
            Way::There(peer) => {
                // The connection tells a task that is gone; an answer may wait for much else on a slow line.
                let limit = peer.patience().outage;
                let asked = peer.ask("Turn", Frames::of(Kind::Turn(turn)));
                let late = |_| Err(peer.gone(Cause::Silent, "no answer"));
                match tokio::time::timeout(limit, asked)
                    .await
                    .unwrap_or_else(late)?
                {
                    Kind::TurnGiven(given) => Ok(given),
                    _ => Err(peer.lost("it has sent what is no answer")),
                }
            }
        }
    }

    /// Whether no task that was reached is lost.
    pub(crate) fn is_whole(&self) -> bool {
        self.inner.links.iter().all(Link::is_whole)
    }

    /// Whether the server of this session was shut down.
    pub(crate) fn ended(&self) -> bool {
        let mut own = self.inner.links.iter().filter_map(|l| match &l.way {
            Way::Here(worker) => Some(worker),
            Way::There(_) => None,
        });
        own.any(|w| w.has_ended())
    }

    /// Looks whether the nodes of a graph have places.
    ///
    /// # Errors
    /// One has none, or a task that is asked for is not reached.
    pub(crate) fn placed(&self, data: &Arc<GraphData>) -> Result<(), ClusterError> {
        let cutter = self.waited(self.inner.cutter(data))?;
        cutter.placed(data).map_err(ClusterError::from)
    }

    /// Runs `work`, which runs steps, to its end.
    ///
    /// # Errors
    /// Its own, or the server of the session has ended.
    pub(crate) fn waited<T: Send>(
        &self,
        work: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        if self.ended() {
            return Err(over());
        }
        match wait::waited(&*self.inner.platform, work) {
            Err(e) if matches!(e.cause, Cause::Internal | Cause::Protocol) && self.ended() => {
                Err(over())
            }
            done => done,
        }
    }

    /// Ends the sessions on all tasks.
    pub(crate) fn close(&self) {
        self.inner.plans.clear();
        self.inner.links.iter().for_each(Link::close);
    }
}

fn over() -> ClusterError {
    ClusterError::new(
        Cause::ShutDown,
        "the server of this session was shut down: make a session on one that runs",
    )
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inner {
    async fn open(&self, link: &Link) -> Result<Arc<Opened>, ClusterError> {
        link.open(&self.asked, self.platform.runtime()).await
    }

    /// What cuts steps over the devices as they are known now.
    async fn cutter(&self, data: &GraphData) -> Result<Arc<Cutter>, ClusterError> {
        // A task that nobody asked is taken to have a CPU; where a node wants more, it is asked.
        for link in self.links.iter().filter(|l| !l.is_known()) {
            let (job, index) = link.way.task();
            let here = |d: &DeviceSpec| {
                let known = self.links.iter().filter(|l| l.is_known());
                let mut known = known.flat_map(|l| l.devices());
                known.any(|k| d.device_type.is_none() || k.device_type == d.device_type)
            };
            let more = |d: &DeviceSpec| {
                let job_fits = match d.job.as_deref() {
                    Some(named) => named == job,
                    None => !here(d),
                };
                job_fits
                    && d.task.is_none_or(|t| t == *index)
                    && (d.device_type.as_deref().is_some_and(|t| t != "CPU")
                        || d.index.is_some_and(|i| i > 0))
            };
            if data.nodes().any(|(_, n)| more(&n.device)) {
                self.open(link).await?;
            }
        }
        let mut kept = locked(&self.cutter);
        // Numbers of devices stay, whatever is learnt: plans have them, and variables lie on them.
        let known = kept.as_ref().map_or(&[][..], |c| c.devices());
        let mut more = Vec::new();
        for (number, link) in self.links.iter().enumerate() {
            let own = link.devices().into_iter();
            let new = own.filter(|d| !known.contains(d));
            more.extend(new.map(|d| (d, number as u32)));
        }
        let made = match &*kept {
            Some(cutter) if more.is_empty() => return Ok(cutter.clone()),
            Some(cutter) => cutter.with(more),
            None => Cutter::new(self.engine.machine().clone(), self.options.clone(), more),
        };
        let made = Arc::new(made);
        *kept = Some(made.clone());
        Ok(made)
    }

    /// Does `run`, until it is done, cancelled or out of time. Dropping this ends it too.
    async fn limited<T>(
        &self,
        options: &RunOptions,
        run: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        let cancelled = || ClusterError::new(Cause::Cancelled, "the step was cancelled");
        let late = |limit: Duration| {
            let text = format!("the step did not end within its {limit:?}");
            ClusterError::new(Cause::Deadline, text)
        };
        let stopped = async {
            let end = options.timeout.map(|t| tokio::time::Instant::now() + t);
            loop {
                let look = tokio::time::Instant::now() + LOOK;
                let next = match (&options.cancel, end) {
                    (None, None) => std::future::pending().await,
                    (None, Some(end)) => end,
                    (Some(_), None) => look,
                    (Some(_), Some(end)) => look.min(end),
                };
                tokio::time::sleep_until(next).await;
                if options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                    return cancelled();
                }
                if let (Some(limit), Some(end)) = (options.timeout, end)
                    && tokio::time::Instant::now() >= end
                {
                    return late(limit);
                }
            }
        };
        if options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(cancelled());
        }
        tokio::select! {
            biased;
            done = run => done,
            why = stopped => Err(why),
        }
    }
}
