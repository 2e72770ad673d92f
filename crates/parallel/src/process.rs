//! Process: one that trains alone, a task of a cluster, or a rank.

#[cfg(feature = "cluster")]
use std::path::Path;

#[cfg(feature = "cluster")]
use thalweg_dist::{
    ClusterOptions, ClusterSpec, Server, ServerOptions, Session as ClusterSession, sync,
};
use thalweg_graph::Graph;
use thalweg_hvd::Hvd;
use thalweg_session::{Session, SessionError, SessionOptions};
use thalweg_train::{MonitoredTrainingSession, Role, TrainError};

#[cfg(feature = "cluster")]
use crate::error::ParallelError;
use crate::mode::Task;
use crate::run::{MonitoredSteps, TrainingRun};
use crate::training::Training;

/// Default number of checkpoints of a folder that are kept, as in `tf.train.Saver`.
const DEFAULT_MAX_TO_KEEP: usize = 5;

/// Part of this process in a training: all of it, a task of the jobs `ps` and `worker` of a cluster, or a rank.
///
/// The same program runs in all processes. A server builds the graph too, and its [`Process::start`] returns when the
/// training is over:
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Initializer, VariableScopes};
/// use thalweg_ops::{MathOps, NewGraph, ReduceOps, StateOps};
/// use thalweg_parallel::{DataParallel, Process, VariableUpdate};
/// use thalweg_session::SessionOptions;
/// use thalweg_optim::GradientDescent;
///
/// fn train(process: &Process, mode: VariableUpdate) -> Result<f32, Box<dyn std::error::Error>> {
///     let g = Graph::new();
///     let training = DataParallel::new(mode).on(process).build(
///         &g,
///         |_step| GradientDescent::new(0.1),
///         |_tower| {
///             let w = g.get_variable("w", [2]).initializer(Initializer::Ones).build();
///             w.value().square().sum()
///         },
///     )?;
///     let mut last = f32::NAN;
///     if let Some(mut run) = process.start(&g, &training, |session| session.quiet())? {
///         for _ in 0..10 {
///             let Some((loss, _step)) = run.step::<f32>(training.loss, [])? else { break };
///             last = loss;
///         }
///         run.close()?;
///     }
///     Ok(last)
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let alone = Process::alone(SessionOptions::new());
/// assert!(train(&alone, VariableUpdate::Independent)? < 0.1);
/// assert_eq!((alone.number(), alone.workers()), (0, 1));
/// # Ok(())
/// # }
/// ```
pub struct Process {
    kind: Kind,
    session: SessionOptions,
    /// The job of ranks that this process is one of.
    ranks: Option<Hvd>,
    /// Number of checkpoints of a folder that are kept.
    kept: usize,
}

enum Kind {
    Alone,
    #[cfg(feature = "cluster")]
    Task {
        server: Server,
        task: Task,
    },
}

impl Process {
    /// A process that trains alone, in sessions with these options: there must be as many CPU devices as towers.
    pub fn alone(session: SessionOptions) -> Process {
        Process {
            kind: Kind::Alone,
            session,
            ranks: None,
            kept: DEFAULT_MAX_TO_KEEP,
        }
    }

    /// A rank of a job: [`VariableUpdate::Horovod`](crate::VariableUpdate::Horovod).
    pub fn rank(hvd: &Hvd, session: SessionOptions) -> Process {
        Process {
            ranks: Some(hvd.clone()),
            ..Process::alone(hvd.session(session))
        }
    }

    /// The job of ranks that this process is one of.
    pub fn ranks(&self) -> Option<&Hvd> {
        self.ranks.as_ref()
    }

    /// Parses the flags `--job_name`, `--task_index`, `--ps_hosts` and `--worker_hosts`, which `thalweg launch` passes
    /// to a program; without them the process is alone. Other flags are ignored. A task on a network has the keys of the flag
    /// `--protection DIR`, or the protection that the launcher tells: [`ServerOptions::launched`].
    ///
    /// # Errors
    /// [`ParallelError::Flags`], [`ParallelError::Cluster`], [`ParallelError::Protection`], [`ParallelError::Server`].
    ///
    /// ```
    /// use thalweg_parallel::Process;
    /// use thalweg_session::SessionOptions;
    ///
    /// let alone = ["program", "--steps", "5"].map(str::to_owned);
    /// assert_eq!(Process::launched(alone, SessionOptions::new())?.task(), None);
    ///
    /// let wrong = ["program", "--job_name=worker", "--task_index", "one"].map(str::to_owned);
    /// let error = Process::launched(wrong, SessionOptions::new()).err().expect("an error");
    /// assert_eq!(error.to_string(), "--task_index one: give a number from 0 on");
    /// # Ok::<(), thalweg_parallel::ParallelError>(())
    /// ```
    #[cfg(feature = "cluster")]
    pub fn launched(
        args: impl IntoIterator<Item = String>,
        session: SessionOptions,
    ) -> Result<Process, ParallelError> {
        let args: Vec<String> = args.into_iter().collect();
        let flag = |name: &str| -> Option<&str> {
            let at = args
                .iter()
                .position(|a| a.split('=').next() == Some(name))?;
            match args[at].split_once('=') {
                Some((_, value)) => Some(value),
                None => args.get(at + 1).map(String::as_str),
            }
        };
        let Some(job) = flag("--job_name") else {
            return Ok(Process::alone(session));
        };
        let text = flag("--task_index").unwrap_or("0");
        let wrong = |_| ParallelError::Flags {
            flag: "--task_index",
            value: text.to_owned(),
        };
        let index: u32 = text.parse().map_err(wrong)?;
        let hosts = |name| flag(name).unwrap_or_default();
        let jobs = [
            ("ps", hosts("--ps_hosts")),
            ("worker", hosts("--worker_hosts")),
        ];
        let cluster = ClusterSpec::from_flags(&jobs)?;
        let options = ServerOptions::listening("")
            .session(session.clone())
            .launched(flag("--protection").map(Path::new))?;
        Ok(Process::of(
            Server::new(cluster, job, index, options)?,
            session,
        ))
    }

    /// Number of this worker or rank, 0 if it is alone: for seeds that differ between them.
    pub fn number(&self) -> u32 {
        match &self.ranks {
            Some(hvd) => hvd.rank() as u32,
            None => self.task().and_then(|task| task.worker).unwrap_or(0),
        }
    }

    /// Number of workers or ranks that train together, 1 if it is alone: for shards of the data, and rates that grow with
    /// the batch.
    pub fn workers(&self) -> u32 {
        match &self.ranks {
            Some(hvd) => hvd.size() as u32,
            None => self.task().map_or(1, |task| task.workers),
        }
    }

    /// The task of a server, with the server's devices; sessions have these options.
    #[cfg(feature = "cluster")]
    pub fn of(server: Server, session: SessionOptions) -> Process {
        let name = server.task();
        let worker = (name.0 == "worker").then_some(name.1);
        let task = Task {
            servers: server.cluster().len("ps") as u32,
            workers: server.cluster().len("worker") as u32,
            worker,
        };
        Process {
            kind: Kind::Task { server, task },
            session,
            ranks: None,
            kept: DEFAULT_MAX_TO_KEEP,
        }
    }

    /// Its place in a cluster; `None` outside of one.
    pub fn task(&self) -> Option<Task> {
        match &self.kind {
            Kind::Alone => None,
            #[cfg(feature = "cluster")]
            Kind::Task { task, .. } => Some(*task),
        }
    }

    /// Number of checkpoints of a folder that are kept (5); 0 keeps all.
    pub fn max_to_keep(mut self, most: usize) -> Process {
        self.kept = most;
        self
    }

    /// Role in initializing and saving variables: the first server is the chief in synchronous training, and otherwise
    /// the first worker.
    fn role(&self, training: &Training<'_>) -> Role {
        let chief = match (self.task(), &training.synchronized) {
            (None, _) => true,
            (Some(task), None) => task.worker == Some(0),
            (Some(task), Some(_)) => task.worker.is_none(),
        };
        if chief { Role::Chief } else { Role::Worker }
    }

    /// `true` if it runs steps: all but servers do.
    pub fn steps(&self) -> bool {
        self.task().is_none_or(|task| task.worker.is_some())
    }

    /// Starts the training of a graph: initializes variables, or restores the newest checkpoint. `configure` sets
    /// options of the [`MonitoredTrainingSession`], such as saving checkpoints.
    ///
    /// On a parameter server it serves until all workers are done, and then returns `None`.
    ///
    /// # Errors
    /// Errors of the graph or a checkpoint, and unreachable tasks.
    pub fn start<'p, 'g>(
        &'p self,
        g: &'g Graph,
        training: &'p Training<'g>,
        configure: impl FnOnce(MonitoredTrainingSession<'p>) -> MonitoredTrainingSession<'p>,
    ) -> Result<Option<TrainingRun<'p, 'g>>, TrainError>
    where
        'g: 'p,
    {
        let role = self.role(training);
        let scaffold =
            training.scaffold(training.saver().max_to_keep(self.kept), role == Role::Chief);
        let monitored = MonitoredTrainingSession::new(g).scaffold(scaffold);
        let monitored = configure(monitored).role(role);
        let monitored = match self.number() {
            // Only rank 0 saves, and broadcasts restored values.
            1.. if self.ranks.is_some() => monitored.without_folder(),
            _ => monitored,
        };
        match &self.kind {
            Kind::Alone => {
                let options = self.session.clone();
                let make = move || Session::with_options(g, options.clone());
                let make: Box<dyn FnMut() -> Result<Session<'g>, SessionError> + 'p> =
                    Box::new(make);
                let steps = MonitoredSteps::Alone(monitored.start(make)?);
                Ok(Some(TrainingRun::new(training, steps, self.ranks.clone())))
            }
            #[cfg(feature = "cluster")]
            Kind::Task { server, task } => match task.worker {
                Some(worker) => {
                    let run = self.work(server, worker, g, training, monitored);
                    if run.is_err() {
                        // Servers must not wait for this worker.
                        server.finish("ps");
                    }
                    run.map(Some)
                }
                None => self.serve(server, g, training, monitored).map(|()| None),
            },
        }
    }
}

#[cfg(feature = "cluster")]
impl Process {
    /// Options of a session on a task. Tasks connect to the servers only.
    fn options(&self) -> ClusterOptions {
        ClusterOptions::new()
            .session(self.session.clone())
            .device_filter("/job:ps")
    }

    fn work<'p, 'g>(
        &'p self,
        server: &'p Server,
        worker: u32,
        g: &'g Graph,
        training: &'p Training<'g>,
        monitored: MonitoredTrainingSession<'p>,
    ) -> Result<TrainingRun<'p, 'g>, TrainError> {
        let make = move || ClusterSession::on(server, g, self.options());
        let make: crate::run::MakeOnTask<'p, 'g> = Box::new(make);
        let session = monitored.start(make)?;
        let steps = MonitoredSteps::Task {
            server,
            worker,
            session,
        };
        Ok(TrainingRun::new(training, steps, None))
    }

    /// Runs a server.
    fn serve<'p, 'g>(
        &'p self,
        server: &'p Server,
        g: &'g Graph,
        training: &'p Training<'g>,
        monitored: MonitoredTrainingSession<'p>,
    ) -> Result<(), TrainError> {
        let coordinates = server.task().1 == 0;
        if let Some(synchronized) = training.synchronized.as_ref().filter(|_| coordinates) {
            let mut coordinator = sync::Coordinator::new(server, synchronized, "worker")?;
            let make = || ClusterSession::on(server, g, self.options());
            let mut session = monitored.start(make)?;
            while session.run_step_fn(|s| coordinator.update(s))?.is_some() {}
            // The last checkpoint is saved before the workers learn of the end: the other servers end with them.
            let saved = session.close();
            coordinator.close();
            saved?;
        }
        Ok(server.join_workers("worker")?)
    }
}
