//! Runs the steps of one graph over the tasks of a cluster.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use thalweg_graph::{DeviceSpec, GraphData, OutputId, Placement};
use thalweg_plan::PlanCache;
use thalweg_session::SessionError;
use thalweg_session::{Engine, Fetch, RunOptions, SessionOptions, TaskChannels, Trace};
use thalweg_tensor::Tensor;

use super::link::{TaskLink, TaskRoute};
use super::part_runs::StepInputs;
use super::plan::ClusterPlan;
use super::runner::ClusterRunner;
use crate::cluster::spec::ClusterSpec;
use crate::error::{Cause, ClusterError};
use crate::runtime::blocking;
use crate::runtime::platform::Platform;
use crate::transport::frames::Frames;
use crate::transport::messages::header::Kind;
use crate::transport::{messages as wire, processes};
use crate::worker::session_cluster;

/// Plans and runs steps of one graph, which only grows, over several tasks.
pub(crate) struct ClusterSteps {
    inner: Arc<ClusterRunner>,
}

/// A partial run that is ready to start.
pub(crate) struct PartialRunPlan(Arc<ClusterPlan>);

impl ClusterSteps {
    /// Returns the steps over these tasks. A node without a device runs on the first task. Constants are folded on
    /// `engine`.
    pub(crate) fn new(
        ways: Vec<TaskRoute>,
        engine: Engine,
        options: SessionOptions,
        isolated: bool,
        platform: Arc<dyn Platform>,
    ) -> ClusterSteps {
        let (job, index) = match ways.first() {
            Some(TaskRoute::Local(worker)) => worker.task.clone(),
            _ => (String::new(), 0),
        };
        let own = match ways.first() {
            Some(TaskRoute::Local(worker)) => {
                Some(processes::message(&worker.task, worker.process()))
            }
            _ => None,
        };
        let links = ways.into_iter().map(TaskLink::new).collect();
        let asked = wire::Open {
            isolated,
            job,
            index,
            own,
            ..wire::Open::default()
        };
        ClusterSteps::of_links(links, asked, engine, options, platform)
    }

    /// Returns the steps over the tasks of a cluster that is the session's own. A node without a device runs on the
    /// first link's task.
    pub(crate) fn in_own_cluster(
        links: Vec<TaskLink>,
        cluster: &ClusterSpec,
        engine: Engine,
        options: SessionOptions,
        isolated: bool,
        platform: Arc<dyn Platform>,
    ) -> ClusterSteps {
        let asked = wire::Open {
            isolated,
            tasks: session_cluster::message(cluster),
            ..wire::Open::default()
        };
        ClusterSteps::of_links(links, asked, engine, options, platform)
    }

    fn of_links(
        links: Vec<TaskLink>,
        asked: wire::Open,
        engine: Engine,
        options: SessionOptions,
        platform: Arc<dyn Platform>,
    ) -> ClusterSteps {
        ClusterSteps {
            inner: Arc::new(ClusterRunner {
                asked: wire::Open {
                    session: format!(
                        "{:016x}{:016x}",
                        platform.random_u64(),
                        platform.random_u64()
                    ),
                    ..asked
                },
                engine,
                plans: PlanCache::new(options.max_plans()),
                options,
                links,
                partitioner: Mutex::default(),
                next: AtomicU64::new(platform.random_u64()),
                platform,
            }),
        }
    }

    /// Runs a step. Returns a value for each fetched output, in order, and `None` for a node that is only run; and
    /// the step's trace, which is empty unless it was requested.
    ///
    /// # Errors
    /// The request is invalid, or the step has failed.
    pub(crate) fn run(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Vec<Option<Tensor>>, Trace), ClusterError> {
        self.block_on(self.run_async(data, fetches, feeds, options, None))
    }

    /// As [`ClusterSteps::run`]. A drop ends the step. With `once` each task runs its part exactly once for the
    /// stamp, and to its end.
    ///
    /// # Errors
    /// As [`ClusterSteps::run`].
    pub(crate) async fn run_async(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
        once: Option<wire::Once>,
    ) -> Result<(Vec<Option<Tensor>>, Trace), ClusterError> {
        if self.ended() {
            return Err(shut_down_error());
        }
        let inner = &self.inner;
        let run = async {
            let plan = inner.plan(data, fetches, feeds).await?;
            let given = StepInputs {
                feeds,
                limit: options.time_limit(),
                trace: options.is_traced(),
                client: None,
                once,
            };
            inner.run_parts(&plan, given).await
        };
        inner.run_limited(options, run).await
    }

    /// Prepares a partial run, whose feeds come while it runs; see
    /// [`TaskPartitioner::cut_partial`](thalweg_plan::TaskPartitioner::cut_partial).
    ///
    /// # Errors
    /// The request is invalid.
    pub(crate) fn prepare_partial_run(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[OutputId],
    ) -> Result<PartialRunPlan, ClusterError> {
        let plan = self.inner.plan_partial_run(data, fetches, feeds);
        Ok(PartialRunPlan(self.block_on(plan)?))
    }

    /// Runs a partial run, with the channels of its client.
    ///
    /// # Errors
    /// The step has failed.
    pub(crate) fn run_partial(
        &self,
        pieces: &PartialRunPlan,
        client: Arc<dyn TaskChannels>,
        options: &RunOptions,
    ) -> Result<(), ClusterError> {
        let given = StepInputs {
            feeds: &[],
            limit: options.time_limit(),
            trace: false,
            client: Some(client),
            once: None,
        };
        let run = self.inner.run_parts(&pieces.0, given);
        self.block_on(self.inner.run_limited(options, run))
            .map(|_| ())
    }

    /// Asks this task, the coordinator of a synchronous training, for a turn.
    ///
    /// # Errors
    /// The task is not part of the session, or not reached; the training is over.
    pub(crate) async fn turn(
        &self,
        task: &DeviceSpec,
        turn: wire::Turn,
    ) -> Result<wire::TurnGiven, ClusterError> {
        let fits = |link: &&TaskLink| {
            let (job, index) = link.name();
            task.job.as_deref().is_none_or(|j| j == job) && task.task.is_none_or(|t| t == *index)
        };
        let found = self.inner.links.iter().find(fits).ok_or_else(|| {
            ClusterError::invalid(format!(
                "the session does not use {task}, which coordinates the training: leave it in the device filters"
            ))
        });
        match &found?.way {
            TaskRoute::Local(worker) => {
                let timeout = worker.peers.options.timeouts.heartbeat / 2;
                worker.turns.ask(&turn, timeout).await
            }
            TaskRoute::Remote(peer) => {
                // The connection detects a dead task; a response may wait behind other data on a slow line.
                let limit = peer.timeouts().server_recovery;
                let asked = peer.ask("Turn", Frames::of(Kind::Turn(turn)));
                let late = |_| Err(peer.no_contact(Cause::Silent, "no answer"));
                match tokio::time::timeout(limit, asked)
                    .await
                    .unwrap_or_else(late)?
                {
                    Kind::TurnGiven(given) => Ok(given),
                    _ => Err(peer.unreachable("it has sent what is no answer")),
                }
            }
        }
    }

    /// Returns the devices of each task of the session's own cluster, this process's first; `None` if it has none.
    pub(crate) fn own_cluster_devices(&self) -> Option<Vec<Vec<DeviceSpec>>> {
        let named = !self.inner.asked.tasks.is_empty();
        named.then(|| self.inner.links.iter().map(TaskLink::devices).collect())
    }

    /// `true` if no task that was reached is lost.
    pub(crate) fn is_intact(&self) -> bool {
        self.inner.links.iter().all(TaskLink::is_intact)
    }

    /// `true` once the server of this session is shut down.
    pub(crate) fn ended(&self) -> bool {
        let mut own = self.inner.links.iter().filter_map(|l| match &l.way {
            TaskRoute::Local(worker) => Some(worker),
            TaskRoute::Remote(_) => None,
        });
        own.any(|w| w.has_ended())
    }

    /// Checks the placement of a graph's nodes.
    ///
    /// The inner error is that of a node without a device.
    ///
    /// # Errors
    /// A task that a node names is not reached.
    pub(crate) fn placed(
        &self,
        data: &Arc<GraphData>,
    ) -> Result<Result<Arc<Placement>, SessionError>, ClusterError> {
        let partitioner = self.block_on(self.inner.partitioner(data))?;
        Ok(partitioner.placed(data))
    }

    /// Blocks on `work`, which runs steps.
    ///
    /// # Errors
    /// The error of `work`, or the server of the session has ended.
    pub(crate) fn block_on<T: Send>(
        &self,
        work: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        if self.ended() {
            return Err(shut_down_error());
        }
        match blocking::block_on(&*self.inner.platform, work) {
            Err(e) if matches!(e.cause, Cause::Internal | Cause::Protocol) && self.ended() => {
                Err(shut_down_error())
            }
            done => done,
        }
    }

    /// Closes the sessions on all tasks.
    pub(crate) fn close(&self) {
        self.inner.plans.clear();
        self.inner.links.iter().for_each(TaskLink::close);
    }
}

fn shut_down_error() -> ClusterError {
    ClusterError::new(
        Cause::ShutDown,
        "the server of this session was shut down: make a session on one that runs",
    )
}

impl Drop for ClusterSteps {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use crate::fuzzing::tasks::FuzzedTask;

    use super::*;

    fn steps(task: &FuzzedTask) -> ClusterSteps {
        let worker = &task.worker;
        ClusterSteps::new(
            vec![TaskRoute::Local(worker.clone())],
            worker.engine.clone(),
            worker.options.clone(),
            false,
            worker.platform.clone(),
        )
    }

    #[test]
    fn steps_of_a_server_that_has_ended_are_refused() {
        let task = FuzzedTask::default();
        let steps = steps(&task);
        let run = || steps.block_on(async { Ok(5) });
        assert_eq!((run(), steps.ended()), (Ok(5), false));
        task.worker.end();
        assert_eq!(run().unwrap_err().cause, Cause::ShutDown);
        assert!(steps.ended() && steps.is_intact());
    }

    #[test]
    fn a_turn_is_asked_of_a_task_of_the_session() {
        let task = FuzzedTask::default();
        let steps = steps(&task);
        let ask = |coordinator: &str| {
            let coordinator = DeviceSpec::parse(coordinator).unwrap();
            let note = wire::Turn {
                name: "t".to_owned(),
                only: true,
                ..wire::Turn::default()
            };
            steps.block_on(steps.turn(&coordinator, note))
        };
        ask("/job:localhost/task:0").unwrap();
        for other in ["/job:localhost/task:1", "/job:ps/task:0"] {
            let error = ask(other).unwrap_err();
            assert_eq!(error.cause, Cause::Invalid);
            assert!(error.message.contains(other), "{error}");
        }
    }
}
