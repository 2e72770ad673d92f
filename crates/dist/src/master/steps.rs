//! Steps of one graph over the tasks of a cluster.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use thalweg_graph::{DeviceSpec, GraphData, OutputId};
use thalweg_plan::PlanCache;
use thalweg_session::{Engine, Fetch, RunOptions, SessionOptions, TaskChannels, Trace};
use thalweg_tensor::Tensor;

use super::link::{Link, Way};
use super::part_runs::Given;
use super::plan::ClusterPlan;
use super::runner::Inner;
use crate::error::{Cause, ClusterError};
use crate::runtime::blocking;
use crate::runtime::platform::Platform;
use crate::transport::frames::Frames;
use crate::transport::messages::header::Kind;
use crate::transport::{messages as wire, processes};

/// Plans and runs steps of one graph, which only grows, over several tasks.
pub(crate) struct Steps {
    inner: Arc<Inner>,
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
                partitioner: Mutex::default(),
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

    /// Makes a step ready whose feeds come while it runs; see [`TaskPartitioner::cut_partial`].
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
        client: Arc<dyn TaskChannels>,
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
                let timeout = worker.peers.reach.timeouts.heartbeat / 2;
                worker.turns.ask(&turn, timeout).await
            }
            Way::There(peer) => {
                // The connection tells a task that is gone; an answer may wait for much else on a slow line.
                let limit = peer.timeouts().server_recovery;
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
        let partitioner = self.waited(self.inner.partitioner(data))?;
        partitioner.placed(data).map_err(ClusterError::from)
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
        match blocking::waited(&*self.inner.platform, work) {
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
