//! Sessions over a cluster, from Rust.

use std::sync::Arc;

use thalweg_graph::{Graph, Operation, OutputId};
use thalweg_session::{
    Engine, Feed, Fetch, FetchList, Fetched, Fetches, FetchesAs, GraphRef, RunOptions,
    SessionOptions, Trace, Values,
};
use thalweg_tensor::Tensor;
use tokio::runtime::Runtime;

use crate::cluster::spec::TaskName;
use crate::error::{Cause, ClusterError};
use crate::limits::server_limits::Limits;
use crate::master::link::{TaskRoute, other_tasks};
use crate::master::steps::ClusterSteps;
use crate::runtime::blocking;
use crate::runtime::platform::system;
use crate::runtime::threads::check_threads_available;
use crate::runtime::timeouts::Timeouts;
use crate::server::Server;
use crate::transport::messages as wire;
use crate::transport::network::Tcp;
use crate::transport::peers::{PeerOptions, Peers};
use crate::transport::protection::Protection;

/// How a session over a cluster works.
///
/// Each method changes one thing and gives the options back; the fields can be read and set as well.
///
/// ```
/// use thalweg_dist::{ClusterOptions, Timeouts};
/// use std::time::Duration;
///
/// // A worker's session: the tasks of `ps`, beside its own, which may start within a minute.
/// let options = ClusterOptions::new()
///     .device_filter("/job:ps")
///     .timeouts(Timeouts::new().connect(Duration::from_secs(60)));
/// assert_eq!(options.device_filters, ["/job:ps"]);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClusterOptions {
    /// How nodes are placed and plans are made. What it says of devices is the tasks' to say.
    pub session: SessionOptions,
    /// How long other tasks are waited for.
    pub timeouts: Timeouts,
    /// Which tasks the session may use, beside the one that it is made on: parts of their names, such as
    /// `/job:ps`. All, where there are none.
    pub device_filters: Vec<String>,
    /// Whether its variables and queues are its own: others are shared, by name, with every session of
    /// the cluster.
    pub isolated: bool,
    /// Whether large values of tasks on this machine come through shared memory, as in
    /// [`crate::ServerOptions::shared_memory`].
    pub shared_memory: bool,
    /// What a client outside of the cluster shows to its tasks, where they are protected. A session that
    /// is made on a task shows what that does.
    pub protection: Option<Protection>,
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
    /// The defaults.
    pub fn new() -> ClusterOptions {
        ClusterOptions::default()
    }

    /// With nodes placed and plans made like this.
    pub fn session(self, session: SessionOptions) -> ClusterOptions {
        ClusterOptions { session, ..self }
    }

    /// With this long for other tasks.
    pub fn timeouts(self, timeouts: Timeouts) -> ClusterOptions {
        ClusterOptions { timeouts, ..self }
    }

    /// With the tasks that have this part of a name, such as `/job:ps`, after those of earlier filters.
    pub fn device_filter(mut self, filter: impl Into<String>) -> ClusterOptions {
        self.device_filters.push(filter.into());
        self
    }

    /// Whether its variables and queues are its own.
    pub fn isolated(self, isolated: bool) -> ClusterOptions {
        ClusterOptions { isolated, ..self }
    }

    /// Whether large values of co-located tasks come through shared memory.
    pub fn shared_memory(self, shared_memory: bool) -> ClusterOptions {
        ClusterOptions {
            shared_memory,
            ..self
        }
    }

    /// With this shown to the tasks that are protected.
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
    /// Where a client outside of the cluster has its connections.
    runtime: Option<Runtime>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.steps.close();
        if let Some(runtime) = self.runtime.take() {
            // To wait for its threads is not allowed everywhere.
            runtime.shutdown_background();
        }
    }
}

impl<'g> Session<'g> {
    /// A session on a task of this process. What no device is asked for runs on it.
    ///
    /// # Errors
    /// The graph's first mistake; a filter that is none.
    pub fn on(
        server: &Server,
        graph: impl Into<GraphRef<'g>>,
        options: ClusterOptions,
    ) -> Result<Session<'g>, ClusterError> {
        let graph = graph.into();
        graph.checked()?;
        let worker = server.worker();
        let platform = worker.platform.clone();
        // The server's own connections, where they are as they should be.
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
                named(options.session, &worker.task),
                options.isolated,
                platform,
            ),
            timeouts: options.timeouts,
            runtime: None,
        })
    }

    /// A session on the cluster that this task is of (`grpc://host:port`), from a process that is none
    /// of its tasks. What no device is asked for runs on the task.
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
            flight: Limits::default().flight_bytes,
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
        let mut own = SessionOptions::new().threads(1);
        own.job = "client".to_owned();
        let engine = Engine::new(&own).map_err(ClusterError::from)?;
        let session = named(options.session, &task);
        Ok(Session {
            graph,
            steps: ClusterSteps::new(ways, engine, session, options.isolated, platform),
            timeouts: options.timeouts,
            runtime: Some(runtime),
        })
    }

    /// Of steps that are made already.
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

    /// How long other tasks are waited for.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Runs a step: computes what is fetched, from what is fed, and gives the values as what they are
    /// asked for; see [`FetchesAs`].
    ///
    /// # Errors
    /// What is wrong with what is asked, what failed in the step, and which task is not reached. The
    /// session is usable after any of them; an update that had run by then stays.
    pub fn run<'f, R>(
        &self,
        fetches: impl FetchesAs<R>,
        feeds: impl AsRef<[Feed<'f>]>,
    ) -> Result<R, ClusterError> {
        let list = FetchList::of(&fetches, &self.graph)?;
        let (values, _) = self.ran(&list, feeds.as_ref(), &RunOptions::default())?;
        Ok(fetches.take(&mut Values::new(&list, values.into()))?)
    }

    /// As [`Session::run`], for who does not know what is fetched before the program runs: gives the
    /// values as tensors.
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

    /// As [`Session::step`], with options; gives its trace too, which is empty unless it was asked for:
    /// what ran on which task, on one clock.
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

    /// As [`Session::step_with`], for who runs on the threads of the network; dropping it ends the step.
    ///
    /// # Errors
    /// As there.
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

    /// Runs `operations` once for a stamp, on each task to its end; see [`ClusterSteps::run_async`].
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

    /// Feeds by number.
    fn fed(&self, feeds: &[Feed<'_>]) -> Result<Vec<(OutputId, Tensor)>, ClusterError> {
        let feeds = Feed::all_of(feeds, &self.graph)?;
        Ok(feeds.map(|(o, t)| (o, t.clone())).collect())
    }

    /// Runs `work`, which runs steps of this session, to its end.
    ///
    /// # Errors
    /// Its own, or the server of the session has ended.
    pub(crate) fn block_on<T: Send>(
        &self,
        work: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        self.steps.block_on(work)
    }

    /// Runs a step whose fetches and feeds are numbers of the graph's: gives a value for each fetched
    /// output, nothing for a node that is only run, and the step's trace, which is empty unless it was asked for.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_ids(
        &self,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<(Vec<Option<Tensor>>, Trace), ClusterError> {
        let data = self.graph.checked()?;
        self.steps.run(&data, fetches, feeds, options)
    }
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

fn named(mut options: SessionOptions, task: &TaskName) -> SessionOptions {
    (options.job, options.task) = task.clone();
    options
}
