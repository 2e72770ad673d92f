//! Starts servers of a cluster on loopback, in this process; a runtime that runs op cases on them.

use thalweg::dist::{ClusterOptions, ClusterSpec, Server, ServerOptions, Session, Timeouts};
use thalweg::prelude::*;
use thalweg::tensor::Tensor;

pub use super::addresses::free_addresses;
use super::golden::Case;
use super::runtime::{Results, Runtime};
use super::session::{Entry, built};

/// A cluster with these jobs and numbers of tasks.
pub fn cluster(jobs: &[(&str, usize)]) -> ClusterSpec {
    let mut addresses = free_addresses(jobs.iter().map(|(_, n)| n).sum()).into_iter();
    let mut of = |count: usize| -> Vec<String> { addresses.by_ref().take(count).collect() };
    ClusterSpec::new(jobs.iter().map(|(job, count)| (*job, of(*count)))).unwrap()
}

/// The server of one task, with `cpus` CPU devices.
pub fn server(
    cluster: &ClusterSpec,
    job: &str,
    index: u32,
    cpus: usize,
    timeouts: Timeouts,
) -> Server {
    let options = ServerOptions::listening("")
        .session(SessionOptions::new().cpus(cpus).threads(cpus))
        .timeouts(timeouts);
    Server::new(cluster.clone(), job, index, options).unwrap()
}

/// All tasks of a cluster, with one CPU each.
pub fn servers(cluster: &ClusterSpec) -> Vec<Server> {
    let jobs: Vec<String> = cluster.jobs().map(str::to_owned).collect();
    let tasks = jobs.iter().flat_map(|job| {
        let tasks = cluster.tasks(job);
        tasks.map(move |(index, _)| (job, index))
    });
    tasks
        .map(|(job, index)| server(cluster, job, index, 1, Timeouts::default()))
        .collect()
}

/// A runtime over a cluster: a case's node and variables are on the last parameter server; its inputs pass through the
/// other tasks.
pub struct ClusterRuntime {
    tasks: Vec<Server>,
    servers: usize,
}

impl ClusterRuntime {
    /// A cluster of `parameter_servers` servers and a worker.
    pub fn new(parameter_servers: usize) -> ClusterRuntime {
        let session = SessionOptions::new().threads(1);
        let options = ServerOptions::listening("").session(session);
        let jobs = [("ps", parameter_servers as u32), ("worker", 1)];
        ClusterRuntime {
            tasks: Server::local_cluster(&jobs, options).unwrap(),
            servers: parameter_servers,
        }
    }
}

impl Runtime for ClusterRuntime {
    fn run(&self, case: &Case) -> Result<Results, String> {
        let g = Graph::new();
        let server = |i: usize| {
            let name = format!("/job:ps/task:{}", i % self.servers);
            name.parse::<DeviceSpec>().unwrap()
        };
        let way = |i: usize, x| {
            let first = g.device("/job:worker/task:0".parse::<DeviceSpec>().unwrap(), || {
                g.op("Identity").input(x).output()
            });
            g.device(server(i), || g.op("Identity").input(first).output())
        };
        let built = g.device(server(self.servers - 1), || {
            built(&g, case, Entry::Fed, &way)
        })?;
        let options = ClusterOptions::new()
            .isolated(true)
            .session(SessionOptions::new().optimise(false));
        let worker = &self.tasks[self.servers];
        let session = Session::on(worker, &g, options).map_err(|e| e.to_string())?;
        built.results(case, &|nodes, values, feeds| {
            let done = match values {
                [] => session.step(nodes, feeds),
                _ => session.step(values, feeds),
            };
            done.map_err(|e| e.to_string())
        })
    }
}

/// A model whose weight is on the server: the worker trains it to be 3.
pub struct RemoteModel<'g> {
    pub loss: Output<'g>,
    pub train: Operation<'g>,
    pub x: Output<'g>,
    pub w: Variable<'g>,
}

/// A weight on `/job:ps/task:0`, and its training on `/job:worker/task:0`.
pub fn remote_model(g: &Graph) -> RemoteModel<'_> {
    let w = g.device("/job:ps/task:0", || g.variable("w", 0.5f32));
    let (loss, train, x) = g.device("/job:worker/task:0", || {
        let x = g.placeholder("x", DType::F32, [3]);
        let loss = (x * w - x * 3.0).square().mean();
        (loss, GradientDescent::new(0.1).minimize(loss), x)
    });
    RemoteModel { loss, train, x, w }
}

/// Trains for `steps` steps; returns the losses.
pub fn train(session: &Session<'_>, model: &RemoteModel<'_>, steps: usize) -> Vec<f32> {
    let x = Tensor::vector(&[1.0f32, 2.0, 3.0]);
    let step = |_| {
        let done = session.step((model.train, model.loss), [model.x.feed(x.clone())]);
        done.unwrap().scalar::<f32>(1).unwrap()
    };
    (0..steps).map(step).collect()
}
