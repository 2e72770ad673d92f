//! Hvd: this process as a rank of a job.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thalweg_collective::{Join, Progress, Ranks, Timeline};
use thalweg_graph::{Graph, Operation};
use thalweg_ops::Variable;
use thalweg_session::SessionOptions;

use crate::broadcast::broadcast;
use crate::error::HvdError;
use crate::hook::BroadcastGlobalVariablesHook;
use crate::optimizer::DistributedOptimizer;
use crate::process_set::ProcessSet;

/// This process as a rank of a job: the result of `hvd.init()`. Dropping it is `hvd.shutdown()`, after all sessions
/// that use it.
#[derive(Clone)]
pub struct Hvd {
    pub(crate) progress: Arc<Progress>,
    place: JobPlace,
    /// Number of collectives without a name that the program has run.
    pub(crate) calls: Arc<AtomicU64>,
    /// Name of the next collectives.
    pub(crate) name: Option<Arc<str>>,
}

/// Place of this rank in the job.
#[derive(Clone, Copy, Debug)]
struct JobPlace {
    rank: usize,
    size: usize,
    local: (usize, usize),
    cross: (usize, usize),
    homogeneous: bool,
}

impl std::fmt::Debug for Hvd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.size())
    }
}

impl Hvd {
    /// Meets the other ranks that `thalweg launch hvd` has started; without the launcher, this is the only rank.
    ///
    /// # Errors
    /// Environment variables are invalid, or ranks do not meet.
    pub fn init() -> Result<Hvd, HvdError> {
        Hvd::meet(&Join::from_env()?)
    }

    /// Like [`Hvd::init`], for ranks that may run collectives in different orders, and [`Hvd::join`] when they have no
    /// more data. All ranks must call it. A collective waits until all ranks have announced it to the coordinator, by
    /// its name.
    ///
    /// # Errors
    /// As for [`Hvd::init`].
    pub fn init_negotiated() -> Result<Hvd, HvdError> {
        Hvd::meet(&Join::from_env()?.negotiated(true))
    }

    /// Meets the other ranks of a job.
    ///
    /// # Errors
    /// The ranks do not meet.
    pub fn meet(join: &Join) -> Result<Hvd, HvdError> {
        let ranks = Ranks::join(join)?;
        let place = JobPlace {
            rank: ranks.rank(),
            size: ranks.size(),
            local: ranks.local(),
            cross: ranks.cross(),
            homogeneous: ranks.is_homogeneous(),
        };
        let hvd = Hvd {
            progress: Arc::new(Progress::start(ranks).map_err(HvdError::Thread)?),
            place,
            calls: Arc::default(),
            name: None,
        };
        if let Some(path) = join.timeline() {
            hvd.start_timeline(path)?;
        }
        if let Some(path) = join.trace() {
            hvd.start_trace(path)?;
        }
        Ok(hvd)
    }

    /// Starts a timeline: rank 0 writes waits and runs of collectives to a file for Perfetto and Chrome. The other
    /// ranks write nothing. `HOROVOD_TIMELINE` names a file for the whole job.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn start_timeline(&self, path: impl AsRef<Path>) -> Result<(), HvdError> {
        if self.rank() == 0 {
            let path = path.as_ref();
            let made = Timeline::create(path).map_err(|e| unwritten(path, &e))?;
            self.progress.timeline(Some(made));
        }
        Ok(())
    }

    /// Starts a trace: each rank writes to a file when each of its collectives was ready and ran, and its time of
    /// waiting, copying and reducing. The rank is appended to the name. `thalweg launch hvd --trace` merges them into
    /// one file, with a process for each rank.
    ///
    /// # Errors
    /// The file cannot be made.
    ///
    /// ```
    /// use thalweg_hvd::{Hvd, ReduceOp};
    /// use thalweg_tensor::Tensor;
    ///
    /// # let folder = std::env::temp_dir().join(format!("trace-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let hvd = Hvd::init()?;
    /// hvd.start_trace(folder.join("trace.json"))?;
    /// hvd.allreduce(Tensor::scalar(1.0f32), ReduceOp::Sum)?;
    /// assert!(folder.join("trace.json.0").exists());
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_trace(&self, path: impl AsRef<Path>) -> Result<(), HvdError> {
        let mut path = path.as_ref().as_os_str().to_owned();
        path.push(format!(".{}", self.rank()));
        let made = self.progress.trace(&path);
        made.map_err(|e| unwritten(Path::new(&path), &e))
    }

    /// Ends the timeline of [`Hvd::start_timeline`].
    pub fn stop_timeline(&self) {
        self.progress.timeline(None);
    }

    /// Number of this rank.
    pub fn rank(&self) -> usize {
        self.place.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.place.size
    }

    /// Number of this rank among those of its host.
    pub fn local_rank(&self) -> usize {
        self.place.local.0
    }

    /// Number of ranks of its host.
    pub fn local_size(&self) -> usize {
        self.place.local.1
    }

    /// Number of its host among those that have a rank with this local number.
    pub fn cross_rank(&self) -> usize {
        self.place.cross.0
    }

    /// Number of hosts that have a rank with this local number.
    pub fn cross_size(&self) -> usize {
        self.place.cross.1
    }

    /// `true` if all hosts have the same number of ranks.
    pub fn is_homogeneous(&self) -> bool {
        self.place.homogeneous
    }

    /// `true` if another rank failed, or timed out, and so ended the job.
    pub(crate) fn lost_others(&self) -> bool {
        self.progress.is_failure_of_others()
    }

    /// Options of a session whose graph has collectives: it runs as this rank.
    pub fn session(&self, options: SessionOptions) -> SessionOptions {
        options.collectives(self.progress.session())
    }

    /// Creates a set of ranks: all ranks must call it, in the same order, while no collective is in progress.
    ///
    /// # Errors
    /// The ranks name different sets, or the error that ended the job.
    pub fn add_process_set(&self, ranks: &[usize]) -> Result<ProcessSet, HvdError> {
        let id = self.progress.add_set(ranks)?;
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable();
        Ok(ProcessSet { id, ranks })
    }

    /// Wraps an optimizer, which then updates by the average of the gradients of all ranks.
    pub fn distributed<O>(&self, optimizer: O) -> DistributedOptimizer<O> {
        DistributedOptimizer::new(optimizer, self.size())
    }

    /// Broadcasts all variables of the graph from one rank.
    #[track_caller]
    pub fn broadcast_global_variables<'g>(&self, graph: &'g Graph, root: usize) -> Operation<'g> {
        let all = graph.variables();
        let all: Vec<Variable<'g>> = all.iter().map(|v| Variable::of(graph, v)).collect();
        self.broadcast_variables(graph, &all, root)
    }

    /// Broadcasts these variables from one rank.
    #[track_caller]
    pub fn broadcast_variables<'g>(
        &self,
        graph: &'g Graph,
        variables: &[Variable<'g>],
        root: usize,
    ) -> Operation<'g> {
        broadcast(graph, variables, root)
    }

    /// Creates a hook that broadcasts the variables from one rank when a session was created.
    pub fn broadcast_hook(&self, root: usize) -> BroadcastGlobalVariablesHook {
        BroadcastGlobalVariablesHook::new(root)
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> HvdError {
    HvdError::Timeline {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
