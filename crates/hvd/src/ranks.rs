//! This process as one of the ranks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thalweg_collective::{ALL_RANKS, Join, Progress, Ranks, Timeline};
use thalweg_graph::{Graph, Operation};
use thalweg_ops::{CollectiveOps, StateOps, Variable};
use thalweg_session::SessionOptions;

use crate::error::HvdError;
use crate::hook::BroadcastGlobalVariablesHook;
use crate::optimizer::DistributedOptimizer;
use crate::process_set::ProcessSet;

/// This process as one of the ranks of a job: what `hvd.init()` sets up. Dropping it is `hvd.shutdown()`, once no session
/// uses it any more.
#[derive(Clone)]
pub struct Hvd {
    pub(crate) progress: Arc<Progress>,
    places: Places,
    /// How many collectives without a name the program has run.
    pub(crate) calls: Arc<AtomicU64>,
    /// What the program calls its next collectives.
    pub(crate) name: Option<Arc<str>>,
}

/// Where this rank is.
#[derive(Clone, Copy, Debug)]
struct Places {
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
    /// Meets the other ranks that `thalweg launch hvd` has started; alone, where it was not started so.
    ///
    /// # Errors
    /// The variables of the environment cannot be used, or ranks do not find each other.
    pub fn init() -> Result<Hvd, HvdError> {
        Hvd::meet(&Join::from_env()?)
    }

    /// As [`Hvd::init`], of ranks that may run collectives in different orders, and [`Hvd::join`] when they have no more data.
    /// All ranks must begin so. A collective waits until all ranks have announced it to the coordinator, by its name.
    ///
    /// # Errors
    /// As [`Hvd::init`].
    pub fn init_negotiated() -> Result<Hvd, HvdError> {
        Hvd::meet(&Join::from_env()?.negotiated(true))
    }

    /// Meets the other ranks of a job.
    ///
    /// # Errors
    /// The ranks do not find each other.
    pub fn meet(join: &Join) -> Result<Hvd, HvdError> {
        let ranks = Ranks::join(join)?;
        let places = Places {
            rank: ranks.rank(),
            size: ranks.size(),
            local: ranks.local(),
            cross: ranks.cross(),
            homogeneous: ranks.is_homogeneous(),
        };
        let hvd = Hvd {
            progress: Arc::new(Progress::start(ranks).map_err(HvdError::Thread)?),
            places,
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

    /// Rank 0 writes to a file, from now on, what collectives wait for and do: Perfetto and Chrome show it. The other ranks
    /// write nothing. `HOROVOD_TIMELINE` names a file for the whole job.
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

    /// Each rank writes to a file, from now on, when each of its collectives was ready and ran, and what the time went to: waiting,
    /// copying, reducing. The number of the rank is added to the name. `thalweg launch hvd --trace` makes one file of them, with
    /// a process for each rank.
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

    /// Ends what [`Hvd::start_timeline`] has begun.
    pub fn stop_timeline(&self) {
        self.progress.timeline(None);
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.places.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.places.size
    }

    /// The number of this rank among those of its host.
    pub fn local_rank(&self) -> usize {
        self.places.local.0
    }

    /// How many ranks its host has.
    pub fn local_size(&self) -> usize {
        self.places.local.1
    }

    /// The number of its host among those that have a rank with this local number.
    pub fn cross_rank(&self) -> usize {
        self.places.cross.0
    }

    /// How many hosts have a rank with this local number.
    pub fn cross_size(&self) -> usize {
        self.places.cross.1
    }

    /// Whether all hosts have as many ranks.
    pub fn is_homogeneous(&self) -> bool {
        self.places.homogeneous
    }

    /// Whether the job has ended by what another rank did, or did not do in time.
    pub(crate) fn lost_others(&self) -> bool {
        self.progress.is_failure_of_others()
    }

    /// The options of a session whose graph has collectives: it is one of the ranks.
    pub fn session(&self, options: SessionOptions) -> SessionOptions {
        options.collectives(self.progress.session())
    }

    /// Makes a set of ranks: all ranks must do so, in the same order, while no collective is under way.
    ///
    /// # Errors
    /// The ranks name different sets, or what ended the job.
    pub fn add_process_set(&self, ranks: &[usize]) -> Result<ProcessSet, HvdError> {
        let id = self.progress.add_set(ranks)?;
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable();
        Ok(ProcessSet { id, ranks })
    }

    /// An optimizer that updates by the average of the gradients of all ranks.
    pub fn distributed<O>(&self, optimizer: O) -> DistributedOptimizer<O> {
        DistributedOptimizer::new(optimizer, self.size())
    }

    /// Gives all variables of the graph the values that they have on one rank.
    #[track_caller]
    pub fn broadcast_global_variables<'g>(&self, graph: &'g Graph, root: usize) -> Operation<'g> {
        let all = graph.variables();
        let all: Vec<Variable<'g>> = all.iter().map(|v| Variable::of(graph, v)).collect();
        self.broadcast_variables(graph, &all, root)
    }

    /// Gives these variables the values that they have on one rank.
    #[track_caller]
    pub fn broadcast_variables<'g>(
        &self,
        graph: &'g Graph,
        variables: &[Variable<'g>],
        root: usize,
    ) -> Operation<'g> {
        broadcast(graph, variables, root)
    }

    /// A hook that gives variables the values of one rank when a session has been made.
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

/// Gives variables the values that they have on one rank.
#[track_caller]
pub(crate) fn broadcast<'g>(
    graph: &'g Graph,
    variables: &[Variable<'g>],
    root: usize,
) -> Operation<'g> {
    let of_root =
        |v: &Variable<'g>| v.beside(|| v.assign(v.read().broadcast_from(root, ALL_RANKS)));
    let assigned: Vec<Operation<'g>> = variables.iter().map(of_root).collect();
    graph.group("broadcast_variables", assigned)
}
