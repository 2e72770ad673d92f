//! Servers: tasks of a cluster, or a task alone.
//!
//! ```
//! use thalweg_dist::{Server, ServerOptions};
//!
//! # fn main() -> Result<(), thalweg_dist::ServerError> {
//! let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
//! assert!(server.address().ip().is_loopback());
//! assert_eq!(server.task(), &("localhost".to_owned(), 0));
//! // `join` waits until the server ends: a program that only serves ends with it.
//! server.shutdown();
//! server.join()?;
//! # Ok(())
//! # }
//! ```

mod client_prints;
pub(crate) mod deadline;
pub(crate) mod gate;
mod health;
mod join_workers;
mod metrics_http;
mod metrics_text;
mod openmetrics;
pub(crate) mod options;
pub(crate) mod router;
pub(crate) mod serving;
mod settings;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_device::{CheckpointListener, Cpu};
use thalweg_graph::DeviceSpec;
use thalweg_session::Engine;
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;
use tokio::sync::watch;

use crate::cluster::spec::{ClusterSpec, TaskName};
use crate::limits::machine::Machine;
use crate::limits::server_limits::account_within;
use crate::limits::settings::Setting;
use crate::metrics::counters::Counters;
use crate::metrics::training::TrainingGauges;
use crate::runtime::platform::system;
use crate::runtime::threads::check_threads_available;
use crate::tf_client::master::Master;
use crate::transport::connections::table::{ConnectionLimits, ConnectionTable};
use crate::transport::network::Tcp;
use crate::transport::peers::{PeerOptions, Peers};
use crate::worker::state::Worker;
use metrics_text::MetricsText;
use options::{ServerError, ServerOptions, address_of, bind};
use serving::{ServerExit, ServerThread};

/// Maximum number of network threads; the default is half of the processor's threads.
const MAX_NET_THREADS: usize = 4;
/// Interval at which a draining server checks for running steps.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// A task that clients connect to. It runs until it is shut down or dropped.
///
/// [`Server::start`] makes one that is alone, [`Server::new`] a task of a cluster. This is the main function of
/// a parameter server:
///
/// ```no_run
/// use thalweg_dist::{ClusterSpec, Server, ServerOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = ClusterSpec::from_flags(&[("ps", "127.0.0.1:2220"), ("worker", "127.0.0.1:2230")])?;
/// let server = Server::new(cluster, "ps", 0, ServerOptions::listening(""))?;
/// server.join_workers("worker")?;
/// # Ok(())
/// # }
/// ```
///
/// One that is alone has the target that TensorFlow's client takes too:
///
/// ```
/// use thalweg_dist::{Server, ServerOptions};
///
/// # fn main() -> Result<(), thalweg_dist::ServerError> {
/// let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
/// assert_eq!(server.target(), format!("grpc://{}", server.address()));
/// # Ok(())
/// # }
/// ```
pub struct Server {
    address: SocketAddr,
    master: Arc<Master>,
    worker: Arc<Worker>,
    connection_table: Arc<ConnectionTable>,
    runtime: tokio::runtime::Handle,
    stop: watch::Sender<bool>,
    ended: Arc<ServerExit>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a task by itself, `/job:localhost/task:0` unless the options name it otherwise.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn start(options: ServerOptions) -> Result<Server, ServerError> {
        let socket = bind(&options)?;
        let (job, task) = (
            options.session.job().to_owned(),
            options.session.task_index(),
        );
        let address = address_of(&socket, &options)?;
        let cluster = ClusterSpec::sparse([(job, [(task, address)].into())])?;
        Server::serve(cluster, socket, options)
    }

    /// Starts all tasks of a cluster in this process, on free ports of this machine: for tests and experiments. They
    /// are returned in the order of the jobs, and all have these options.
    ///
    /// # Errors
    /// See [`ServerError`].
    ///
    /// ```
    /// use thalweg_dist::{Server, ServerOptions};
    ///
    /// # fn main() -> Result<(), thalweg_dist::ServerError> {
    /// let jobs = [("ps", 1), ("worker", 2)];
    /// let tasks = Server::local_cluster(&jobs, ServerOptions::listening("127.0.0.1:0"))?;
    /// assert_eq!(tasks[2].device().to_string(), "/job:worker/task:1");
    /// assert_eq!(tasks[2].cluster().len("worker"), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_cluster(
        jobs: &[(&str, u32)],
        options: ServerOptions,
    ) -> Result<Vec<Server>, ServerError> {
        let options = ServerOptions {
            listen: "127.0.0.1:0".to_owned(),
            ..options
        };
        let (mut addresses, mut tasks) = (Vec::new(), Vec::new());
        for &(job, count) in jobs {
            let mut of_job = Vec::new();
            for index in 0..count {
                let socket = bind(&options)?;
                of_job.push(address_of(&socket, &options)?);
                tasks.push((job, index, socket));
            }
            addresses.push((job, of_job));
        }
        let cluster = ClusterSpec::new(addresses)?;
        let start = |(job, index, socket)| {
            let options = options.clone().of_task(job, index);
            Server::serve(cluster.clone(), socket, options)
        };
        tasks.into_iter().map(start).collect()
    }

    /// Starts a task of a cluster, at its address in the cluster. A parameter server opens no GPU unless the options
    /// say so.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn new(
        cluster: ClusterSpec,
        job: &str,
        index: u32,
        options: ServerOptions,
    ) -> Result<Server, ServerError> {
        let mut options = options.of_task(job, index);
        options.listen = cluster.address(job, index)?.to_owned();
        let socket = bind(&options)?;
        Server::serve(cluster, socket, options)
    }

    /// Serves on a bound socket.
    fn serve(
        cluster: ClusterSpec,
        socket: std::net::TcpListener,
        mut options: ServerOptions,
    ) -> Result<Server, ServerError> {
        Setting::check_all(&options)?;
        let address = socket.local_addr().map_err(|e| options.cannot_listen(e))?;
        let session = &options.session;
        let task = (session.job().to_owned(), session.task_index());
        let counts: Arc<Counters> = Arc::default();
        let files = session.allowed_files().clone();
        let files = files.with_checkpoint_listener(counts.clone());
        options = options.files(files);
        let session = options.bounded();
        let engine = Engine::new(&session)?;
        let threads = (Cpu::available_threads() / 2).clamp(1, MAX_NET_THREADS);
        // And one thread that waits for the end.
        check_threads_available(threads + 1)
            .map_err(|e| ServerError::Threads(std::io::Error::other(e)))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("thalweg-net")
            .enable_all()
            .build()
            .map_err(ServerError::Threads)?;
        let handle = runtime.handle().clone();
        let platform = system(handle.clone());
        let largest = Machine::here().file;
        if options.shared_memory && largest != u64::MAX {
            tracing::warn!(
                "values of more than {largest} bytes go to tasks of this machine over TCP, and not through shared \
                 memory: the file size limit (ulimit -f) holds for it"
            );
        }
        let peer_options = PeerOptions {
            own: Some(task.clone()),
            network: Arc::new(Tcp),
            timeouts: options.timeouts,
            shared_memory: options.shared_memory,
            protection: options.protection.clone(),
            limit: options.limits.value_bytes,
            flight: account_within(&session, options.limits.flight_bytes),
        };
        let peers = Peers::new(platform.clone(), peer_options, counts);
        let worker = Arc::new(Worker::new(
            engine.clone(),
            session,
            options.limits.clone(),
            (cluster, task),
            Arc::new(peers),
            platform,
        ));
        let master = Arc::new(Master::new(worker.clone()));
        let (stop, stopped) = watch::channel(false);
        let ended = Arc::new(ServerExit::default());
        let bounds = ConnectionLimits {
            most: options.limits.connections,
            arrival: options.limits.arrival,
            idle: options.limits.idle,
            heartbeat: options.timeouts.heartbeat,
        };
        let refusals = worker.counts.refusals.clone();
        let connection_table = ConnectionTable::new(bounds, refusals);
        let serving = ServerThread {
            master: master.clone(),
            worker: worker.clone(),
            heartbeat: options.timeouts.heartbeat,
            protection: options.protection,
            connection_table: connection_table.clone(),
            ended: ended.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("thalweg-server".to_owned())
            .spawn(move || serving.run(runtime, socket, stopped))
            .map_err(ServerError::Threads)?;
        let server = Server {
            address,
            master,
            worker,
            connection_table,
            runtime: handle,
            stop,
            ended,
            thread: Some(thread),
        };
        if let Some(address) = &options.metrics {
            server.serve_metrics(address)?;
        }
        Ok(server)
    }

    pub(crate) fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }

    /// Returns the cluster of this task.
    pub fn cluster(&self) -> &ClusterSpec {
        &self.worker.cluster
    }

    /// Returns its job, and its number there.
    pub fn task(&self) -> &TaskName {
        &self.worker.task
    }

    /// Returns the prefix of its devices' names: `/job:worker/task:1`.
    pub fn device(&self) -> DeviceSpec {
        let (job, index) = self.task();
        DeviceSpec {
            job: Some(job.as_str().into()),
            task: Some(*index),
            ..DeviceSpec::default()
        }
    }

    /// Returns the target for clients: `grpc://host:port`.
    pub fn target(&self) -> String {
        format!("grpc://{}", self.address)
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the server ends.
    ///
    /// # Errors
    /// [`ServerError::Ended`] if it was not shut down.
    pub fn join(&self) -> Result<(), ServerError> {
        let mut why = self.ended.why.lock().unpoisoned();
        loop {
            if let Some(why) = &*why {
                return why.clone().map_err(ServerError::Ended);
            }
            why = self.ended.changed.wait(why).unpoisoned();
        }
    }

    /// Returns its metrics in the OpenMetrics text format, which Prometheus reads. `thalweg server --metrics` serves
    /// it.
    ///
    /// ```
    /// use thalweg_dist::{Server, ServerOptions};
    ///
    /// # fn main() -> Result<(), thalweg_dist::ServerError> {
    /// let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
    /// assert!(server.metrics().contains("thalweg_sessions 0"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(&self) -> String {
        self.metrics_text().text()
    }

    /// Serves [`Server::metrics`] over HTTP on this address, until the server ends. Returns the address on which it
    /// listens. The metrics are readable without protection.
    ///
    /// # Errors
    /// It cannot listen there.
    pub fn serve_metrics(&self, address: &str) -> Result<SocketAddr, ServerError> {
        let numbers = self.metrics_text();
        let text = move || numbers.text();
        metrics_http::serve(address, &self.runtime, self.stop.subscribe(), text)
    }

    /// Returns the gauges of the program's training, which are among [`Server::metrics`]. A training loop records its
    /// steps there.
    pub fn training(&self) -> TrainingGauges {
        self.worker.counts.training.clone()
    }

    fn metrics_text(&self) -> Arc<MetricsText> {
        Arc::new(MetricsText {
            master: self.master.clone(),
            worker: self.worker.clone(),
            connection_table: self.connection_table.clone(),
        })
    }

    /// Drains the server: refuses new sessions and new steps of clients, and waits until no step runs, for `limit` at
    /// most. Connections stay until [`Server::shutdown`]. Returns the number of steps that still run.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg_dist::{Server, ServerOptions};
    ///
    /// # fn main() -> Result<(), thalweg_dist::ServerError> {
    /// let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
    /// assert_eq!(server.drain(Duration::from_secs(5)), 0);
    /// server.shutdown();
    /// # Ok(())
    /// # }
    /// ```
    pub fn drain(&self, limit: Duration) -> usize {
        self.worker.drain();
        tracing::info!(?limit, "draining");
        let began = Instant::now();
        loop {
            // A step of this server's clients is counted by both.
            let running = self.master.running().max(self.worker.running());
            if running == 0 || began.elapsed() >= limit || self.worker.has_ended() {
                tracing::info!(running, "drained");
                return running;
            }
            std::thread::sleep(DRAIN_POLL_INTERVAL);
        }
    }

    /// Returns the initialized variables of this task on CPUs, by name, for the writers of [`thalweg_checkpoint`] and
    /// a `Saver`. The tensors share the variables' memory.
    ///
    /// [`thalweg_checkpoint`]: https://docs.rs/thalweg-checkpoint
    pub fn variables(&self) -> Vec<(String, Tensor)> {
        self.worker.engine.store().values()
    }

    /// Counts a checkpoint of its variables that its program has written, or failed to write, in this time.
    pub fn saved(&self, took: Duration, well: bool) {
        CheckpointListener::saved(&*self.worker.counts, took, well);
        tracing::info!(seconds = took.as_secs_f64(), well, "checkpoint");
    }

    /// Shuts the server down: refuses calls, and cancels running steps.
    pub fn shutdown(&self) {
        self.master.end();
        self.worker.end();
        self.stop.send_replace(true);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported where it happened.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.target())
    }
}
