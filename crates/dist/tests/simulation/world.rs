//! Tasks of a simulated cluster, and checks of their state.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use thalweg_graph::Graph;
use thalweg_session::{Engine, SessionOptions};
use tonic::service::Routes;
use turmoil::{Builder, Sim};

use super::faults::SeededRandom;
use super::line::SlowLine;
use super::network::{Connections, PORT, SimulatedNetwork, incoming};
use super::platform::{Busy, STRIDE, Simulated, next};
use crate::cluster::spec::{ClusterSpec, TaskName};
use crate::error::ClusterError;
use crate::limits::server_limits::Limits;
use crate::limits::timeouts::Timeouts;
use crate::master::link::{TaskRoute, other_tasks};
use crate::master::steps::ClusterSteps;
use crate::server::deadline::Deadline;
use crate::server::gate::Gate;
use crate::server::router::ServiceRouter;
use crate::server::serving::{http2_server, sweep_sessions};
use crate::session::Session;
use crate::tf_client::grpc_service::MasterGrpcService;
use crate::tf_client::master::Master;
use crate::transport::connections::table::{ConnectionLimits, ConnectionTable};
use crate::transport::peers::{PeerOptions, Peers};
use crate::worker::service::WorkerService;
use crate::worker::state::Worker;

pub(super) const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    heartbeat: Duration::from_secs(1),
    worker_rejoin: Duration::from_secs(3),
    server_recovery: Duration::from_secs(60),
};

/// A simulation whose messages take up to 30 ms.
pub(super) fn simulation<'a>(seed: u64, numbers: &mut SeededRandom) -> Sim<'a> {
    Builder::new()
        .rng_seed(seed)
        .tick_duration(Duration::from_millis(5))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(1 + numbers.below(30)))
        .tcp_capacity(1 << 16)
        .simulation_duration(Duration::from_secs(180))
        .build()
}

/// Scarce resources of the hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hardship {
    pub(super) line: Option<SlowLine>,
    /// Threads for parts of steps.
    pub(super) threads: usize,
    /// Threads for other work.
    pub(super) others: usize,
}

impl Default for Hardship {
    fn default() -> Hardship {
        Hardship {
            line: None,
            threads: usize::MAX,
            others: usize::MAX,
        }
    }
}

/// A cluster of parameter servers and workers. Hosts have the names of their tasks: `ps0`, `worker1`.
pub(super) struct World {
    pub(super) cluster: ClusterSpec,
    numbers: AtomicU64,
    hardship: Hardship,
    limits: Limits,
    alive: Mutex<BTreeMap<TaskName, SimulatedTask>>,
    /// By host.
    connections: Mutex<BTreeMap<String, Arc<Connections>>>,
    log: Mutex<Vec<String>>,
}

/// State of the last started process of a task, for checks.
struct SimulatedTask {
    worker: Weak<Worker>,
    master: Weak<Master>,
    connection_table: Arc<ConnectionTable>,
    busy: Busy,
}

impl World {
    pub(super) fn new(seed: u64, servers: u32, workers: u32) -> Arc<World> {
        World::with(seed, servers, workers, Hardship::default())
    }

    /// Returns a world with scarce resources.
    pub(super) fn with(seed: u64, servers: u32, workers: u32, hardship: Hardship) -> Arc<World> {
        World::limited(seed, servers, workers, hardship, Limits::default())
    }

    /// Returns a world whose tasks have these limits.
    pub(super) fn limited(
        seed: u64,
        servers: u32,
        workers: u32,
        hardship: Hardship,
        limits: Limits,
    ) -> Arc<World> {
        let hosts = |job: &str, n: u32| -> Vec<String> {
            (0..n).map(|i| format!("{job}{i}:{PORT}")).collect()
        };
        let jobs = [
            ("ps", hosts("ps", servers)),
            ("worker", hosts("worker", workers)),
        ];
        let jobs = jobs.into_iter().filter(|(_, hosts)| !hosts.is_empty());
        Arc::new(World {
            cluster: ClusterSpec::new(jobs).unwrap(),
            numbers: AtomicU64::new(next(seed)),
            hardship,
            limits,
            alive: Mutex::default(),
            connections: Mutex::default(),
            log: Mutex::default(),
        })
    }

    /// Logs an event of the current host, with its time.
    pub(super) fn note(&self, what: impl std::fmt::Display) {
        let at = turmoil::sim_elapsed().unwrap_or_default().as_millis();
        self.log.lock().unwrap().push(format!("{at:6} {what}"));
    }

    /// Logs an event outside of all hosts.
    pub(super) fn note_at(&self, at: Duration, what: impl std::fmt::Display) {
        let at = at.as_millis();
        self.log.lock().unwrap().push(format!("{at:6} {what}"));
    }

    /// Returns the log.
    pub(super) fn noted(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// Returns the connections of a starting host.
    pub(super) fn connections(&self, host: &str) -> Arc<Connections> {
        let connections = Arc::new(Connections::over(self.hardship.line));
        let mut all = self.connections.lock().unwrap();
        all.insert(host.to_owned(), connections.clone());
        connections
    }

    /// Returns a unique number.
    pub(super) fn number(&self) -> u64 {
        next(self.numbers.fetch_add(STRIDE, Ordering::Relaxed))
    }

    /// Starts the task of the current host.
    pub(super) async fn start(&self, job: &str, index: u32) -> turmoil::Result<Arc<Worker>> {
        let seed = self.number();
        let connections = self.connections(&format!("{job}{index}"));
        let threads = (self.hardship.threads, self.hardship.others);
        let busy = Busy::default();
        let platform = Simulated::here(seed, threads, busy.clone());
        let options = SessionOptions::new().threads(1).task(job, index);
        let limits = self.limits.clone();
        let peer_options = PeerOptions {
            // No metrics are read here, so names are not needed.
            own: None,
            network: Arc::new(SimulatedNetwork(connections.clone())),
            timeouts: TIMEOUTS,
            shared_memory: false,
            protection: None,
            limit: limits.value_bytes,
            flight: Arc::new(thalweg_tensor::Memory::new(Some(
                limits.flight_bytes as usize,
            ))),
        };
        let bounds = ConnectionLimits {
            most: limits.connections,
            arrival: limits.arrival,
            idle: limits.idle,
            heartbeat: TIMEOUTS.heartbeat,
        };
        let peers = Peers::new(platform.clone(), peer_options, Arc::default());
        let task = (job.to_owned(), index);
        let worker = Arc::new(Worker::new(
            Engine::new(&options)?,
            options,
            limits,
            (self.cluster.clone(), task.clone()),
            Arc::new(peers),
            platform,
        ));
        let master = Arc::new(Master::new(worker.clone()));
        let refusals = worker.counts.refusals.clone();
        let connection_table = ConnectionTable::new(bounds, refusals.clone());
        let started = SimulatedTask {
            worker: Arc::downgrade(&worker),
            master: Arc::downgrade(&master),
            connection_table: connection_table.clone(),
            busy,
        };
        self.alive.lock().unwrap().insert(task, started);
        tokio::spawn(sweep_sessions(master.clone()));
        let incoming = incoming(connections, connection_table, TIMEOUTS.heartbeat).await?;
        let call_memory = master.call_memory();
        let services = ServiceRouter {
            worker: WorkerService(worker.clone()),
            others: Routes::new(Deadline(MasterGrpcService(master))).prepare(),
        };
        let serving = http2_server(TIMEOUTS.heartbeat);
        tokio::spawn(
            serving.serve_with_incoming(Gate::new(services, None, refusals, call_memory), incoming),
        );
        Ok(worker)
    }

    /// Notes that a host is about to crash.
    pub(super) fn dies(&self, host: &str) {
        if let Some(connections) = self.connections.lock().unwrap().get(host) {
            connections.die();
        }
    }

    /// Returns a session on a task of this host, which uses the parameter servers.
    pub(super) fn session<'g>(
        &self,
        task: &Arc<Worker>,
        graph: &'g Graph,
    ) -> Result<Session<'g>, ClusterError> {
        let mut ways = vec![TaskRoute::Local(task.clone())];
        let filters = ["/job:ps".to_owned()];
        ways.extend(other_tasks(
            &self.cluster,
            &task.task,
            &task.peers,
            &filters,
        )?);
        let (engine, options) = (task.engine.clone(), task.options.clone());
        let steps = ClusterSteps::new(ways, engine, options, false, task.platform.clone());
        Ok(Session::over(graph, steps, TIMEOUTS))
    }

    /// Checks that unused tasks of `job` hold no sessions or steps.
    pub(super) fn idle(&self, job: &str) -> Result<(), String> {
        self.each(job, |_, worker, _| match worker.held() {
            (0, 0, _) => Ok(()),
            held => Err(format!("holds (sessions, steps, bytes) {held:?}")),
        })
    }

    /// Checks that unused tasks of `job` hold their variables only.
    pub(super) fn held(&self, job: &str, variables: impl Fn(u32) -> usize) -> Result<(), String> {
        self.each(job, |index, worker, _| {
            let (held, expected) = (worker.held(), (0, 0, variables(index)));
            match held == expected {
                true => Ok(()),
                false => Err(format!(
                    "holds (sessions, steps, bytes) {held:?}, not {expected:?}"
                )),
            }
        })
    }

    /// Checks that masters of `job` without clients hold no resources, including connections and threads.
    pub(super) fn left(&self, job: &str) -> Result<(), String> {
        self.each(job, |_, _, task| {
            let Some(master) = task.master.upgrade() else {
                return Ok(());
            };
            let state = master.state();
            let held = (state.sessions, state.steps);
            let bytes = (state.call_bytes, state.graph_bytes);
            let (connections, busy) = (
                task.connection_table.taken(),
                Arc::strong_count(&task.busy) - 2,
            );
            match (held, bytes, connections, busy) {
                ((0, 0), (0, 0), 0, 0) => Ok(()),
                _ => Err(format!(
                    "holds (sessions, steps) {held:?}, bytes of (calls, graphs) {bytes:?}, \
                     {connections} connections and {busy} threads for clients that are gone"
                )),
            }
        })
    }

    /// Checks the live tasks of `job`. Returns the first error.
    fn each(
        &self,
        job: &str,
        look: impl Fn(u32, &Worker, &SimulatedTask) -> Result<(), String>,
    ) -> Result<(), String> {
        for ((of, index), task) in &*self.alive.lock().unwrap() {
            if let Some(worker) = task.worker.upgrade().filter(|_| of == job) {
                look(*index, &worker, task).map_err(|e| format!("{job}{index} {e}"))?;
            }
        }
        Ok(())
    }
}
