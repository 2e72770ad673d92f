//! Sessions over a cluster, from Rust.

use std::sync::Arc;

use thalweg_graph::{Graph, Operation, OutputId};
use thalweg_session::{
    Engine, Feed, Fetch, FetchList, Fetched, Fetches, FetchesAs, GraphRef, RunOptions,
    SessionOptions, Trace, Values, check_numbers,
};
use thalweg_tensor::Tensor;
use tokio::runtime::Runtime;

use crate::error::{Cause, ClusterError};
use crate::limits::server_limits::{Limits, memory_account};
use crate::limits::timeouts::Timeouts;
use crate::master::link::{TaskRoute, other_tasks};
use crate::master::steps::ClusterSteps;
use crate::runtime::blocking;
use crate::runtime::platform::system;
use crate::runtime::threads::check_threads_available;
use crate::server::Server;
use crate::transport::messages as wire;
use crate::transport::network::Tcp;
use crate::transport::peers::{PeerOptions, Peers};
use crate::transport::protection::Protection;

/// Options of a session over a cluster.
///
/// Each method sets one option and returns the options.
///
/// ```
/// use thalweg_dist::{ClusterOptions, Timeouts};
/// use std::time::Duration;
///
/// // A worker's session: the tasks of `ps`, beside its own, which may start within a minute.
/// let options = ClusterOptions::new()
///     .device_filter("/job:ps")
///     .timeouts(Timeouts::new().connect(Duration::from_secs(60)));
/// ```
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    session: SessionOptions,
    timeouts: Timeouts,
    device_filters: Vec<String>,
    isolated: bool,
    shared_memory: bool,
    protection: Option<Protection>,
}

impl Default for ClusterOptions {
    fn default() -> ClusterOptions {
        ClusterOptions {
            session: SessionOptions::default(),
            timeouts: Timeouts::default(),
            device_filters: Vec::new(),
            isolated: false,
            shared_memory: true,
            protection: None,
        }
    }
}

impl ClusterOptions {
    /// Returns the defaults.
    pub fn new() -> ClusterOptions {
        ClusterOptions::default()
    }

    /// Sets the options of placement and plans. Its devices have no effect: the tasks have their own.
    pub fn session(self, session: SessionOptions) -> ClusterOptions {
        ClusterOptions { session, ..self }
    }

    /// Sets the timeouts of calls to other tasks.
    pub fn timeouts(self, timeouts: Timeouts) -> ClusterOptions {
        ClusterOptions { timeouts, ..self }
    }

    /// Adds the tasks with this part of a name, such as `/job:ps`, to those that the session may use besides the one that
    /// it is made on. Without filters, it may use all.
    pub fn device_filter(mut self, filter: impl Into<String>) -> ClusterOptions {
        self.device_filters.push(filter.into());
        self
    }

    /// Sets if its variables and queues are its own (`false`). Otherwise they are shared, by name, with all sessions of
    /// the cluster.
    pub fn isolated(self, isolated: bool) -> ClusterOptions {
        ClusterOptions { isolated, ..self }
    }

    /// Sets if large values of tasks on this machine come through shared memory (`true`), as in
    /// [`crate::ServerOptions::shared_memory`].
    pub fn shared_memory(self, shared_memory: bool) -> ClusterOptions {
        ClusterOptions {
            shared_memory,
            ..self
        }
    }

    /// Sets the certificates and token of a client outside of the cluster, if its tasks are protected. A session on a
    /// task uses those of the task.
    pub fn protection(self, protection: impl Into<Option<Protection>>) -> ClusterOptions {
        ClusterOptions {
            protection: protection.into(),
            ..self
        }
    }
}

/// Runs steps of a graph on the tasks of a cluster. May be used by several threads at once.
///
/// The session is its own master: it hands each task its part of a step. Variables live in the tasks
/// and stay there when it ends.
///
/// ```
/// use thalweg_dist::{ClusterOptions, Server, ServerOptions, Session};
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps, StateOps};
/// use thalweg_session::Feeding;
/// use thalweg_tensor::DType;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, []);
/// let total = g.variable("total", 0.0f32);
/// let add = total.assign_add(x);
/// {
///     let session = Session::on(&server, &g, ClusterOptions::default())?;
///     session.run(g.initializers(), [])?;
///     session.run(add, [x.feed(2.0f32)])?;
/// }
/// // The variable is the server's: another session finds it.
/// let session = Session::on(&server, &g, ClusterOptions::default())?;
/// session.run(add, [x.feed(3.0f32)])?;
/// let value: f32 = session.run(total, [])?;
/// assert_eq!(value, 5.0);
/// # Ok(())
/// # }
/// ```
pub struct Session<'g> {
    graph: GraphRef<'g>,
    steps: ClusterSteps,
    timeouts: Timeouts,
    /// Runtime of a client outside of the cluster.
    runtime: Option<Runtime>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.steps.close();
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads is not allowed on every thread.
            runtime.shutdown_background();
        }
    }
}

impl<'g> Session<'g> {
    /// Makes a session on a task of this process. Nodes without a device run on it.
    ///
    /// # Errors
    /// The graph's first mistake; an invalid filter.
    pub fn on(
        server: &Server,
        graph: impl Into<GraphRef<'g>>,
        options: ClusterOptions,
    ) -> Result<Session<'g>, ClusterError> {
        let graph = graph.into();
        graph.checked()?;
        let worker = server.worker();
        let platform = worker.platform.clone();
        // The server's own connections, if they have the same options.
        let own = &worker.peers.options;
        let peers =
            match (own.timeouts, own.shared_memory) == (options.timeouts, options.shared_memory) {
                true => worker.peers.clone(),
                false => {
                    let peer_options = PeerOptions {
                        timeouts: options.timeouts,
                        shared_memory: options.shared_memory,
                        ..own.clone()
                    };
                    Arc::new(worker.peers.with_options(peer_options))
                }
            };
        let mut ways = vec![TaskRoute::Local(worker.clone())];
        ways.extend(other_tasks(
            &worker.cluster,
            &worker.task,
            &peers,
            &options.device_filters,
        )?);
        Ok(Session {
            graph,
            steps: ClusterSteps::new(
                ways,
                worker.engine.clone(),
                options.session.task(&*worker.task.0, worker.task.1),
                options.isolated,
                platform,
            ),
            timeouts: options.timeouts,
            runtime: None,
        })
    }

    /// Makes a session on the cluster of this task (`grpc://host:port`), from a process outside of the cluster. Nodes
    /// without a device run on the task.
    ///
    /// # Errors
    /// The graph's first mistake, or the task is not reached.
    pub fn connect(
        target: &str,
        graph: impl Into<GraphRef<'g>>,
        options: ClusterOptions,
    ) -> Result<Session<'g>, ClusterError> {
        let graph = graph.into();
        graph.checked()?;
        let address = target.strip_prefix("grpc://").ok_or_else(|| {
            ClusterError::invalid(format!(
                "'{target}' is no target: write it as grpc://host:port"
            ))
        })?;
        check_threads_available(1)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("thalweg-net")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|e| {
            let text = format!("no threads for the network: {e}");
            ClusterError::new(Cause::Exhausted, text)
        })?;
        let peer_options = PeerOptions {
            own: None,
            network: Arc::new(Tcp),
            timeouts: options.timeouts,
            shared_memory: options.shared_memory,
            protection: options.protection,
            limit: Limits::default().value_bytes,
            flight: memory_account(Limits::default().flight_bytes),
        };
        let platform = system(runtime.handle().clone());
        let unknown = ("localhost".to_owned(), 0);
        let found = blocking::block_on(&*platform, async {
            let peers = Peers::new(platform.clone(), peer_options.clone(), Arc::default());
            crate::master::link::fetch_cluster(&peers.get(&unknown, address)?).await
        });
        let (mut cluster, task) = found?;
        // As it is reached from here.
        cluster.set_address(&task, address);
        let peers = Peers::new(platform.clone(), peer_options, Arc::default());
        let mut ways = vec![TaskRoute::Remote(peers.get(&task, address)?)];
        ways.extend(other_tasks(
            &cluster,
            &task,
            &peers,
            &options.device_filters,
        )?);
        let own = SessionOptions::new().threads(1).task("client", 0);
        let own = own.ops(options.session.op_set());
        let engine = Engine::new(&own).map_err(ClusterError::from)?;
        let session = options.session.task(&*task.0, task.1);
        Ok(Session {
            graph,
            steps: ClusterSteps::new(ways, engine, session, options.isolated, platform),
            timeouts: options.timeouts,
            runtime: Some(runtime),
        })
    }

    /// Makes a session over these steps.
    #[cfg(test)]
    pub(crate) fn over(
        graph: impl Into<GraphRef<'g>>,
        steps: ClusterSteps,
        timeouts: Timeouts,
    ) -> Session<'g> {
        Session {
            graph: graph.into(),
            steps,
            timeouts,
            runtime: None,
        }
    }

    /// Returns the timeouts of calls to other tasks.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Returns the graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Runs a step: computes the fetches from the feeds. Returns the values in the requested types; see
    /// [`FetchesAs`].
    ///
    /// # Errors
    /// The request is invalid, the step has failed, or a task is not reached. The session is usable after any of
    /// them; an update that had run by then stays.
    pub fn run<'f, R>(
        &self,
        fetches: impl FetchesAs<R>,
        feeds: impl AsRef<[Feed<'f>]>,
    ) -> Result<R, ClusterError> {
        let list = FetchList::of(&fetches, &self.graph)?;
        let (values, _) = self.ran(&list, feeds.as_ref(), &RunOptions::default())?;
        Ok(fetches.take(&mut Values::new(&list, values.into()))?)
    }

    /// As [`Session::run`], for fetches that are not known at compile time: returns the values as tensors.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn step<'f>(
        &self,
        fetches: impl Fetches,
        feeds: impl AsRef<[Feed<'f>]>,
    ) -> Result<Fetched, ClusterError> {
        let done = self.step_with(fetches, feeds, &RunOptions::default());
        done.map(|(fetched, _)| fetched)
    }

    /// As [`Session::step`], with options. Also returns the trace of all tasks on one clock, which is empty unless it
    /// was requested.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn step_with<'f>(
        &self,
        fetches: impl Fetches,
        feeds: impl AsRef<[Feed<'f>]>,
        options: &RunOptions,
    ) -> Result<(Fetched, Trace), ClusterError> {
        let list = FetchList::of(&fetches, &self.graph)?;
        let (values, trace) = self.ran(&list, feeds.as_ref(), options)?;
        Ok((Fetched::of(values), trace))
    }

    /// As [`Session::step_with`], for callers on the threads of the network. A drop ends the step.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub(crate) async fn step_async(
        &self,
        fetches: &impl Fetches,
        feeds: &[Feed<'_>],
        options: &RunOptions,
    ) -> Result<(Fetched, Trace), ClusterError> {
        let (fetches, feeds) = {
            let list = FetchList::of(fetches, &self.graph)?;
            (list.items().to_vec(), self.fed(feeds)?)
        };
        let data = self.graph.checked()?;
        let run = self.steps.run_async(&data, &fetches, &feeds, options, None);
        run.await
            .map(|(values, trace)| (Fetched::of(values), trace))
    }

    /// Runs `operations` exactly once for a stamp, on each task to the end; see [`ClusterSteps::run_async`].
    ///
    /// # Errors
    /// As [`Session::run`].
    pub(crate) async fn once_async(
        &self,
        operations: &[Operation<'g>],
        feeds: &[Feed<'_>],
        options: &RunOptions,
        once: wire::Once,
    ) -> Result<(), ClusterError> {
        let feeds = self.fed(feeds)?;
        let data = self.graph.checked()?;
        let run: Vec<Fetch> = operations.iter().map(|o| Fetch::Run(o.id())).collect();
        let run = self
            .steps
            .run_async(&data, &run, &feeds, options, Some(once));
        run.await.map(|_| ())
    }

    pub(crate) fn steps(&self) -> &ClusterSteps {
        &self.steps
    }

    fn ran(
        &self,
        list: &FetchList<'_>,
        feeds: &[Feed<'_>],
        options: &RunOptions,
    ) -> Result<(Vec<Option<Tensor>>, Trace), ClusterError> {
        let feeds = self.fed(feeds)?;
        let data = self.graph.checked()?;
        self.steps.run(&data, list.items(), &feeds, options)
    }

    /// Returns the feeds by output number.
    fn fed(&self, feeds: &[Feed<'_>]) -> Result<Vec<(OutputId, Tensor)>, ClusterError> {
        let feeds = Feed::all_of(feeds, &self.graph)?;
        Ok(feeds.map(|(o, t)| (o, t.clone())).collect())
    }

    /// Blocks on `work`, which runs steps of this session.
    ///
    /// # Errors
    /// The error of `work`, or the server of the session has ended.
    pub(crate) fn block_on<T: Send>(
        &self,
        work: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        self.steps.block_on(work)
    }

    /// Runs a step whose fetches and feeds are numbers of the graph. Returns a value for each fetched output, `None`
    /// for a node that is only run, and the step's trace, which is empty unless it was requested.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_ids(
        &self,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Vec<Option<Tensor>>, Trace), ClusterError> {
        check_numbers(&self.graph, fetches, feeds)?;
        let data = self.graph.checked()?;
        self.steps.run(&data, fetches, feeds, options)
    }
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
