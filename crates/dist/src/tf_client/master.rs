//! Master of a server: its clients' sessions, and their steps.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_graph::{DeviceSpec, Graph};
use thalweg_ops::NewGraph;
use thalweg_session::{Wire, WireType};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{Memory, Reservation};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Code;

use super::leases::{Caller, SessionLeases};
use super::messages::{ConfigProto, DeviceAttributes, DeviceLocality};
use super::runner::StepRunner;
use super::session::{self, MasterSession};
use super::status::{Status, limit_exceeded};
use super::step_slot::StepSlot;
use super::task_alias::{ClientCluster, TaskAlias};
use crate::error::ClusterError;
use crate::limits::server_limits::{Limits, account_within};
use crate::limits::settings::limit_name;
use crate::master::link::{self, TaskRoute};
use crate::master::steps::ClusterSteps;
use crate::metrics::counters;
use crate::runtime::blocking;
use crate::runtime::platform::Platform;
use crate::transport::frames::Frames;
use crate::transport::messages::Clear;
use crate::transport::messages::header::Kind;
use crate::worker::state::{DRAINING, Worker};

/// The sessions of a server. They share its devices, and the variables and queues on those.
pub struct Master {
    pub(super) worker: Arc<Worker>,
    pub(crate) platform: Arc<dyn Platform>,
    sessions: SessionLeases,
    steps: Arc<AtomicUsize>,
    /// `true` once the server ends, and refuses new work.
    ends: AtomicBool,
    requests: Mutex<RecentRequests>,
    /// Memory of open calls.
    pub(super) calls: Arc<Memory>,
    /// Memory of the graphs of all sessions.
    graphs: Arc<Memory>,
}

impl Master {
    /// Returns a master in the process of this task. Its sessions run on the tasks of the cluster.
    pub(crate) fn new(worker: Arc<Worker>) -> Master {
        Master {
            platform: worker.platform.clone(),
            calls: account_within(&worker.options, worker.limits.call_bytes),
            graphs: account_within(&worker.options, worker.limits.graph_bytes),
            worker,
            sessions: SessionLeases::default(),
            steps: Arc::default(),
            ends: AtomicBool::new(false),
            requests: Mutex::default(),
        }
    }

    /// Returns the memory of open calls.
    pub(crate) fn call_memory(&self) -> Arc<Memory> {
        self.calls.clone()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.worker.limits
    }

    /// Makes a session without nodes. Returns its handle and the session.
    ///
    /// # Errors
    /// A limit of sessions is reached, or the client requests an unsupported option.
    pub(crate) fn create(
        &self,
        config: &ConfigProto,
        target: &str,
        caller: &Caller,
    ) -> Result<(String, Arc<MasterSession>), Status> {
        let worker = &self.worker;
        let (runs, alias) = self.runner(config, target)?;
        let mut held = Reservation::of(Some(&self.graphs));
        if !held.grow(SESSION_BYTES) {
            let text = "the graphs of all sessions take as much memory as they may: close one";
            return Err(limit_exceeded(const { limit_name("graph_bytes") }, &text));
        }
        let platform = self.platform.clone();
        let session = Arc::new(MasterSession::new(
            Graph::with_ops(worker.options.op_set()),
            runs,
            alias,
            &worker.limits,
            held,
            platform,
        ));
        // Handles are unique and cannot be guessed.
        let half = || self.platform.random_u64();
        let handle = format!("{:016x}{:016x}", half(), half());
        let check = || {
            if worker.drains() {
                return Err(Status::new(Code::Unavailable, DRAINING));
            }
            if self.ends.load(Ordering::Acquire) {
                let text = "the server is shutting down";
                return Err(Status::new(Code::Unavailable, text));
            }
            Ok(())
        };
        let inserted = (self.sessions).insert(&handle, &session, caller, &worker.limits, check);
        if let Some((freed, collected)) = inserted? {
            collected.end();
            counters::increment(&worker.counts.sessions_collected);
            tracing::warn!(
                session = freed,
                "session closed to make room: its client is gone"
            );
        }
        counters::increment(&worker.counts.sessions_made);
        tracing::info!(session = handle, client = caller.shown(), "session made");
        Ok((handle, session))
    }

    /// Returns the runner of a session's steps, and the name that the client gives to this task, if it is another one.
    ///
    /// # Errors
    /// Options that a server does not take, or a cluster that it cannot use.
    fn runner(
        &self,
        config: &ConfigProto,
        target: &str,
    ) -> Result<(StepRunner, Option<TaskAlias>), Status> {
        if !config.session_inter_op_thread_pool.is_empty() {
            return Err(Status::invalid(
                "Distributed session does not support session thread pool options.",
            ));
        }
        let worker = &self.worker;
        let mut options = worker.options.clone();
        if config.allow_soft_placement {
            options = options.soft_placement(true);
        }
        if config
            .graph_options
            .is_some_and(|g| g.enable_bfloat16_sendrecv)
        {
            options = options.wire(Wire::all(WireType::BF16));
        }
        let cluster = config.cluster_def.as_ref();
        let cluster = cluster.map(|c| ClientCluster::new(c, target)).transpose()?;
        let shares = config
            .experimental
            .is_some_and(|e| e.share_session_state_in_clusterspec_propagation);
        let isolated = config.isolate_session_state || (cluster.is_some() && !shares);
        let own = worker.engine.devices().first();
        let alias = match (&cluster, own) {
            (Some(c), Some(device)) if c.is_single() && c.own != worker.task => {
                Some(TaskAlias::new(c.own.clone(), device.name()))
            }
            _ => None,
        };
        let named = cluster.filter(|c| !c.is_single() && !c.is_part_of(&worker.cluster));
        let others = self.others(&config.device_filters)?;
        let (engine, platform) = (worker.engine.clone(), self.platform.clone());
        let runs = match (named, others.is_empty()) {
            (Some(named), _) => {
                let links = named.links(worker)?;
                let cluster = &named.cluster;
                StepRunner::Cluster(ClusterSteps::in_own_cluster(
                    links, cluster, engine, options, isolated, platform,
                ))
            }
            (None, true) if isolated => StepRunner::local(engine.isolated(), options),
            (None, true) => StepRunner::local(engine, options),
            (None, false) => {
                let mut ways = vec![TaskRoute::Local(worker.clone())];
                ways.extend(others);
                StepRunner::Cluster(ClusterSteps::new(ways, engine, options, isolated, platform))
            }
        };
        Ok((runs, alias))
    }

    /// Returns the session of this handle, and notes the caller's use.
    ///
    /// # Errors
    /// There is none: `Aborted`, on which TensorFlow's client makes a new session.
    pub(crate) fn session(
        &self,
        handle: &str,
        caller: &Caller,
    ) -> Result<Arc<MasterSession>, Status> {
        self.sessions.used(handle, caller)
    }

    /// Closes expired sessions.
    pub(crate) fn collect(&self) {
        for (handle, session) in self.sessions.expired(self.worker.limits.lease) {
            session.end();
            counters::increment(&self.worker.counts.sessions_collected);
            let lease = self.worker.limits.lease;
            tracing::info!(
                session = handle,
                ?lease,
                "session closed: its client is gone"
            );
        }
    }

    /// Closes a session: cancels its steps and waits for them.
    ///
    /// # Errors
    /// There is none of this handle.
    pub fn close(&self, handle: &str) -> Result<(), Status> {
        let session = self.sessions.remove(handle);
        let gone = || {
            let text =
                format!("Session {handle} is not found. Possibly, this master has restarted.");
            Status::new(Code::Aborted, text)
        };
        let ended = session.ok_or_else(gone)?.close();
        counters::increment(&self.worker.counts.sessions_closed);
        match ended {
            true => tracing::info!(session = handle, "session closed"),
            false => tracing::warn!(
                session = handle,
                "session closed, and steps of it still run"
            ),
        }
        Ok(())
    }

    /// Closes a session that its client does not know, without waiting.
    pub(super) fn forget(&self, handle: &str) {
        if let Some(session) = self.sessions.remove(handle) {
            session.end();
            counters::increment(&self.worker.counts.sessions_closed);
            tracing::info!(
                session = handle,
                "session closed: its client went before the answer"
            );
        }
    }

    /// Closes all sessions, and clears these containers on all tasks; the default one if none is named.
    ///
    /// # Errors
    /// A task is not reached.
    pub fn reset(&self, containers: &[String]) -> Result<(), Status> {
        let all = self.sessions.drain();
        tracing::info!(sessions = all.len(), "reset: all sessions are closed");
        all.iter().for_each(|session| session.cancel());
        // One time limit for all: steps that still run go on to their ends by themselves.
        let end = Instant::now() + session::CLOSE_TIMEOUT;
        for session in &all {
            session.close_until(end);
            counters::increment(&self.worker.counts.sessions_closed);
        }
        self.worker.clear(containers);
        let others = self.others(&[])?;
        for way in &others {
            let TaskRoute::Remote(peer) = way else {
                continue;
            };
            let clear = Kind::Clear(Clear {
                containers: containers.to_vec(),
            });
            blocking::block_on(&*self.platform, async {
                let limit = peer.timeouts().heartbeat;
                let asked = peer.ask("Clear", Frames::of(clear));
                let done = tokio::time::timeout(limit, asked).await;
                done.unwrap_or_else(|_| Err(peer.unreachable("no answer")))
            })?;
        }
        Ok(())
    }

    /// Returns the other tasks of the cluster, as the filters select them.
    fn others(&self, filters: &[String]) -> Result<Vec<TaskRoute>, ClusterError> {
        let worker = &self.worker;
        link::other_tasks(&worker.cluster, &worker.task, &worker.peers, filters)
    }

    /// Refuses new work, and cancels running steps.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        // A concurrent call that has read the flag before has added its session by now.
        self.sessions.each(MasterSession::cancel);
    }

    /// Notes a request's number.
    ///
    /// # Errors
    /// The number is repeated: a client sends a request again if it does not know that it arrived.
    pub(crate) fn check_not_repeated(&self, request: i64, what: &str) -> Result<(), Status> {
        let mut seen = self.requests.lock().unpoisoned();
        if request == 0 || seen.all.insert(request) {
            seen.order.extend((request != 0).then_some(request));
            if seen.order.len() > MAX_REQUESTS
                && let Some(oldest) = seen.order.pop_front()
            {
                seen.all.remove(&oldest);
            }
            return Ok(());
        }
        let text = format!("The same {what} request was received twice.");
        Err(Status::new(Code::Aborted, text))
    }

    /// Returns the devices of this task, and those of the other tasks that answer.
    pub fn devices(&self) -> (Vec<DeviceAttributes>, Vec<DeviceAttributes>) {
        let own = self.worker.engine.devices().iter().enumerate();
        let own = own.map(|(index, device)| {
            let limit = device.memory().limit();
            attributes(device.name(), limit, self.worker.incarnation, index)
        });
        // Concurrently: a task that does not answer takes the whole timeout.
        let mut looks = JoinSet::new();
        for (number, way) in self.others(&[]).unwrap_or_default().into_iter().enumerate() {
            if let TaskRoute::Remote(peer) = way {
                let look = async move { (number, link::probe(&peer, false).await) };
                looks.spawn_on(look, self.platform.runtime());
            }
        }
        let looked = async {
            let mut all = Vec::new();
            // A probe without a result ends with the server.
            while let Some(look) = looks.join_next().await {
                all.extend(look);
            }
            Ok(all)
        };
        let mut looked = blocking::block_on(&*self.platform, looked).unwrap_or_default();
        looked.sort_by_key(|(number, _)| *number);
        let mut others = Vec::new();
        for opened in looked.into_iter().filter_map(|(_, opened)| opened.ok()) {
            for (index, name) in opened.devices.iter().enumerate() {
                if let Ok(name) = DeviceSpec::parse(name) {
                    others.push(attributes(&name, None, opened.incarnation, index));
                }
            }
        }
        (own.collect(), others)
    }

    /// Returns the devices of this task, and those of the others, in a session's own cluster.
    pub(super) fn devices_of_session(
        &self,
        tasks: &[Vec<DeviceSpec>],
    ) -> (Vec<DeviceAttributes>, Vec<DeviceAttributes>) {
        let of = |task: &Vec<DeviceSpec>| -> Vec<DeviceAttributes> {
            let devices = task.iter().enumerate();
            let incarnation = self.worker.incarnation;
            devices
                .map(|(index, name)| attributes(name, None, incarnation, index))
                .collect()
        };
        let (own, others) = tasks.split_at(tasks.len().min(1));
        (
            own.iter().flat_map(of).collect(),
            others.iter().flat_map(of).collect(),
        )
    }

    /// Returns the current state, for the metrics.
    pub(crate) fn state(&self) -> MasterState {
        MasterState {
            sessions: self.sessions.len() as u64,
            steps: self.running() as u64,
            call_bytes: self.calls.used() as u64,
            graph_bytes: self.graphs.used() as u64,
        }
    }

    /// Returns the number of running steps.
    pub(crate) fn running(&self) -> usize {
        self.steps.load(Ordering::Acquire)
    }

    /// Takes a slot for one more step. A drop frees it.
    pub(crate) fn take_step_slot(self: &Arc<Self>) -> Result<StepSlot, Status> {
        // Taken before the check for a drain: the drain then waits for the step, or the step is refused.
        let room = self.take_slot()?;
        match self.worker.drains() {
            true => Err(Status::new(Code::Unavailable, DRAINING)),
            false => Ok(room),
        }
    }

    /// Takes a slot for one more step, or for a call of a partial run.
    pub(super) fn take_slot(self: &Arc<Self>) -> Result<StepSlot, Status> {
        let running = self.steps.fetch_add(1, Ordering::SeqCst);
        let room = StepSlot(self.steps.clone());
        match running < self.worker.limits.steps {
            true => Ok(room),
            false => {
                let text =
                    format!("this server runs {running} steps, as many as it may: wait for one");
                Err(limit_exceeded(const { limit_name("steps") }, &text))
            }
        }
    }
}

/// State of a master, for the metrics.
pub(crate) struct MasterState {
    pub(crate) sessions: u64,
    pub(crate) steps: u64,
    pub(crate) call_bytes: u64,
    pub(crate) graph_bytes: u64,
}

fn attributes(
    name: &DeviceSpec,
    limit: Option<usize>,
    incarnation: u64,
    index: usize,
) -> DeviceAttributes {
    DeviceAttributes {
        name: name.to_string(),
        device_type: name.device_type.as_deref().unwrap_or("CPU").to_owned(),
        memory_limit: limit.map_or(256 << 20, |l| l as i64),
        locality: Some(DeviceLocality::default()),
        incarnation: incarnation.wrapping_add(index as u64),
        physical_device_desc: String::new(),
        xla_global_id: -1,
    }
}

/// Bytes that a session takes without its graph.
const SESSION_BYTES: usize = 32 << 10;

/// Numbers of the last requests.
#[derive(Default)]
struct RecentRequests {
    all: HashSet<i64>,
    order: VecDeque<i64>,
}

/// Maximum number of request numbers that are kept.
const MAX_REQUESTS: usize = 10_000;

#[cfg(test)]
mod tests {
    use crate::fuzzing::tasks::FuzzedTask;

    use super::*;

    fn master(limits: Limits) -> (FuzzedTask, Arc<Master>) {
        let task = FuzzedTask::new(limits);
        let master = Arc::new(Master::new(task.worker.clone()));
        (task, master)
    }

    #[test]
    fn the_steps_of_a_server_are_bounded() {
        let (task, master) = master(Limits {
            steps: 2,
            ..Limits::default()
        });
        let slots = [(); 2].map(|()| master.take_step_slot().unwrap());
        let full = master.take_step_slot().map(|_| ()).unwrap_err();
        assert_eq!((full.limit, master.running()), (Some("steps"), 2));
        drop(slots);
        let slot = master.take_step_slot().unwrap();
        // A draining server ends the steps that run, and starts no more; a partial run goes on.
        task.worker.drain();
        let drains = master.take_step_slot().map(|_| ()).unwrap_err();
        assert_eq!((drains.code, master.running()), (Code::Unavailable, 1));
        drop((master.take_slot().unwrap(), slot));
        assert_eq!(master.running(), 0);
    }

    #[test]
    fn a_repeated_request_is_aborted_while_its_number_is_remembered() {
        let (_task, master) = master(Limits::default());
        let check = |number| {
            master
                .check_not_repeated(number, "RunStep")
                .map_err(|e| e.code)
        };
        // Requests without a number are not compared.
        assert_eq!([check(0), check(0)], [Ok(()), Ok(())]);
        assert_eq!([check(-7), check(-7)], [Ok(()), Err(Code::Aborted)]);
        for number in 1..MAX_REQUESTS as i64 {
            check(number).unwrap();
        }
        assert_eq!(check(-7), Err(Code::Aborted));
        check(i64::MAX).unwrap();
        assert_eq!(check(-7), Ok(()));
    }
}
