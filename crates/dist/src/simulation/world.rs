//! The tasks of a simulated cluster, and what is looked at from outside.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use thalweg_graph::Graph;
use thalweg_session::{Engine, SessionOptions};
use turmoil::{Builder, Sim};

use super::faults::Numbers;
use super::line::SlowLine;
use super::network::{Connections, Dated, PORT, incoming};
use super::platform::{STRIDE, Simulated, next};
use crate::cluster::{ClusterSpec, TaskName};
use crate::error::ClusterError;
use crate::limits::Limits;
use crate::master::link::Way;
use crate::master::link::others;
use crate::master::steps::Steps;
use crate::patience::Patience;
use crate::peers::{Peers, Reach};
use crate::server::transport;
use crate::session::Session;
use crate::worker::{Worker, WorkerService};

pub(super) const PATIENCE: Patience = Patience {
    start: Duration::from_secs(5),
    silence: Duration::from_secs(1),
    absence: Duration::from_secs(3),
    outage: Duration::from_secs(60),
};

/// A simulation whose messages take up to 30 ms.
pub(super) fn simulation<'a>(seed: u64, numbers: &mut Numbers) -> Sim<'a> {
    Builder::new()
        .rng_seed(seed)
        .tick_duration(Duration::from_millis(5))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(1 + numbers.below(30)))
        .tcp_capacity(1 << 16)
        .simulation_duration(Duration::from_secs(180))
        .build()
}

/// What hosts have little of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hardship {
    pub(super) line: Option<SlowLine>,
    /// Threads for parts of steps.
    pub(super) threads: usize,
}

impl Default for Hardship {
    fn default() -> Hardship {
        Hardship {
            line: None,
            threads: usize::MAX,
        }
    }
}

/// A cluster of parameter servers and workers. Hosts have the names of their tasks: `ps0`, `worker1`.
pub(super) struct World {
    pub(super) cluster: ClusterSpec,
    numbers: AtomicU64,
    /// What holds the bytes of each host.
    line: Option<SlowLine>,
    /// How many parts of steps a host has threads for.
    threads: usize,
    alive: Mutex<BTreeMap<TaskName, Weak<Worker>>>,
    /// By host.
    connections: Mutex<BTreeMap<String, Arc<Connections>>>,
    log: Mutex<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, servers: u32, workers: u32) -> Arc<World> {
        World::with(seed, servers, workers, Hardship::default())
    }

    /// One whose hosts have little of something.
    pub(super) fn with(seed: u64, servers: u32, workers: u32, hardship: Hardship) -> Arc<World> {
        let hosts = |job: &str, n: u32| -> Vec<String> {
            (0..n).map(|i| format!("{job}{i}:{PORT}")).collect()
        };
        let jobs = [
            ("ps", hosts("ps", servers)),
            ("worker", hosts("worker", workers)),
        ];
        Arc::new(World {
            cluster: ClusterSpec::new(jobs).unwrap(),
            numbers: AtomicU64::new(next(seed)),
            line: hardship.line,
            threads: hardship.threads,
            alive: Mutex::default(),
            connections: Mutex::default(),
            log: Mutex::default(),
        })
    }

    /// Notes what has happened, and when.
    pub(super) fn note(&self, what: impl std::fmt::Display) {
        let at = turmoil::sim_elapsed().unwrap_or_default().as_millis();
        self.log.lock().unwrap().push(format!("{at:6} {what}"));
    }

    /// The same from outside of all hosts.
    pub(super) fn note_at(&self, at: Duration, what: impl std::fmt::Display) {
        let at = at.as_millis();
        self.log.lock().unwrap().push(format!("{at:6} {what}"));
    }

    /// All that was noted.
    pub(super) fn noted(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// The task of the host that calls this, which begins to listen.
    pub(super) async fn start(&self, job: &str, index: u32) -> turmoil::Result<Arc<Worker>> {
        let seed = next(self.numbers.fetch_add(STRIDE, Ordering::Relaxed));
        let connections = Arc::new(Connections::over(self.line));
        (self.connections.lock().unwrap()).insert(format!("{job}{index}"), connections.clone());
        let platform = Simulated::here(seed, connections.clone(), self.threads);
        let mut options = SessionOptions::new().threads(1);
        (options.job, options.task) = (job.to_owned(), index);
        let limits = Limits::default();
        let reach = Reach {
            // There are no numbers to read here, and so no need for names.
            own: None,
            patience: PATIENCE,
            shared_memory: false,
            protection: None,
            limit: limits.value_bytes,
            flight: limits.flight_bytes,
        };
        let peers = Peers::new(platform.clone(), reach, Arc::default());
        let task = (job.to_owned(), index);
        let worker = Arc::new(Worker::new(
            Engine::new(&options)?,
            options,
            limits,
            (self.cluster.clone(), task.clone()),
            Arc::new(peers),
            platform,
        ));
        self.alive
            .lock()
            .unwrap()
            .insert(task, Arc::downgrade(&worker));
        let incoming = incoming(connections, PATIENCE.silence).await?;
        let service = Dated(WorkerService(worker.clone()));
        let serving = transport(PATIENCE.silence).add_service(service);
        tokio::spawn(serving.serve_with_incoming(incoming));
        Ok(worker)
    }

    /// A host is about to die.
    pub(super) fn dies(&self, host: &str) {
        if let Some(connections) = self.connections.lock().unwrap().get(host) {
            connections.die();
        }
    }

    /// A session of a task of this host; it uses the parameter servers.
    pub(super) fn session<'g>(
        &self,
        task: &Arc<Worker>,
        graph: &'g Graph,
    ) -> Result<Session<'g>, ClusterError> {
        let mut ways = vec![Way::Here(task.clone())];
        let filters = ["/job:ps".to_owned()];
        ways.extend(others(&self.cluster, &task.task, &task.peers, &filters)?);
        let (engine, options) = (task.engine.clone(), task.options.clone());
        let steps = Steps::new(ways, engine, options, false, task.platform.clone());
        Ok(Session::over(graph, steps, PATIENCE))
    }

    /// What is wrong with the tasks of `job` once nobody uses them: sessions or steps are left.
    pub(super) fn idle(&self, job: &str) -> Result<(), String> {
        let alive = self.alive.lock().unwrap();
        let tasks = alive.iter().filter(|((of, _), _)| of == job);
        for ((_, index), worker) in tasks {
            let held = worker.upgrade().map_or((0, 0, 0), |w| w.held());
            if (held.0, held.1) != (0, 0) {
                return Err(format!(
                    "{job}{index} holds (sessions, steps, bytes) {held:?}"
                ));
            }
        }
        Ok(())
    }

    /// What is wrong with the tasks of `job` once nobody uses them: they hold something still.
    pub(super) fn held(&self, job: &str, variables: impl Fn(u32) -> usize) -> Result<(), String> {
        for ((of, index), worker) in &*self.alive.lock().unwrap() {
            let Some(worker) = worker.upgrade().filter(|_| of == job) else {
                continue;
            };
            let held = worker.held();
            let expected = (0, 0, variables(*index));
            if held != expected {
                return Err(format!(
                    "{job}{index} holds (sessions, steps, bytes) {held:?}, not {expected:?}"
                ));
            }
        }
        Ok(())
    }
}
