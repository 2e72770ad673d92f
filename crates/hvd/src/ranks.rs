//! This process as one of the ranks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_collective::{ALL_RANKS, Join, Progress, Ranks, Timeline};
use thalweg_device::{Collective, CollectiveRequest, ReduceOp};
use thalweg_graph::{Graph, Operation};
use thalweg_ops::{CollectiveOps, StateOps, Variable};
use thalweg_session::SessionOptions;
use thalweg_tensor::Tensor;

use crate::error::HvdError;
use crate::hook::BroadcastGlobalVariablesHook;
use crate::optimizer::DistributedOptimizer;
use crate::process_set::ProcessSet;

/// This process as one of the ranks of a job: what `hvd.init()` sets up. Dropping it is `hvd.shutdown()`, once no session
/// uses it any more.
#[derive(Clone)]
pub struct Hvd {
    progress: Arc<Progress>,
    places: Places,
    /// How many collectives without a name the program has run.
    calls: Arc<AtomicU64>,
    /// What the program calls its next collectives.
    name: Option<Arc<str>>,
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
            let made = Timeline::create(path).map_err(|e| HvdError::Timeline {
                path: path.to_owned(),
                reason: e.to_string(),
            })?;
            self.progress.timeline(Some(made));
        }
        Ok(())
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

    /// Makes a set of ranks: all ranks must do so, in the same order.
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

    /// This rank has no more data. Until all ranks have called this, it gives zeros to the sums and averages of the others, and no
    /// rows to what they gather: an average still divides by the number of all ranks. Gives the rank that was the last one.
    ///
    /// # Errors
    /// The job began without [`Hvd::init_negotiated`]. What ended the job: also that the others run a collective that needs a
    /// value of this rank.
    ///
    /// ```
    /// use thalweg_hvd::Hvd;
    ///
    /// let hvd = Hvd::init_negotiated()?;
    /// // It trains on what data it has.
    /// assert_eq!(hvd.join()?, 0);
    /// # Ok::<(), thalweg_hvd::HvdError>(())
    /// ```
    pub fn join(&self) -> Result<usize, HvdError> {
        let last = self.progress.join()?;
        // Ranks have called different numbers of collectives.
        self.calls.store(0, Ordering::Relaxed);
        Ok(last)
    }

    /// The same rank, whose collectives outside of graphs have this name: ranks that negotiate know by it which of them belong
    /// together. Without a name they are numbered.
    ///
    /// ```
    /// use thalweg_hvd::{Hvd, ReduceOp};
    /// use thalweg_tensor::Tensor;
    ///
    /// let hvd = Hvd::init_negotiated()?;
    /// hvd.called("loss").allreduce(Tensor::scalar(1.0f32), ReduceOp::Average)?;
    /// # Ok::<(), thalweg_hvd::HvdError>(())
    /// ```
    pub fn called(&self, name: &str) -> Hvd {
        Hvd {
            name: Some(name.into()),
            ..self.clone()
        }
    }

    /// The name of a collective: its number, where it has none, as all ranks call the same ones.
    fn name(&self, what: &str) -> String {
        match &self.name {
            Some(name) => (**name).to_owned(),
            None => format!("{what}.{}", self.calls.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn call(
        &self,
        what: &str,
        kind: Collective,
        input: Tensor,
        set: i32,
    ) -> Result<Vec<Tensor>, HvdError> {
        let name = self.name(what);
        let request = CollectiveRequest {
            name,
            set,
            kind,
            input,
        };
        Ok(self.progress.call(request)?)
    }

    fn one(&self, what: &str, kind: Collective, input: Tensor) -> Result<Tensor, HvdError> {
        let mut all = self.call(what, kind, input, ALL_RANKS)?;
        Ok(all.swap_remove(0))
    }

    /// What the values of all ranks become together: at once, outside of any graph.
    ///
    /// # Errors
    /// The ranks' values do not fit each other, or what ended the job.
    ///
    /// ```
    /// use thalweg_hvd::{Hvd, ReduceOp};
    /// use thalweg_tensor::Tensor;
    ///
    /// let hvd = Hvd::init()?;
    /// let mean = hvd.allreduce(Tensor::vector(&[1.0f32]), ReduceOp::Average)?;
    /// assert_eq!(mean, Tensor::vector(&[1.0f32]));
    /// # Ok::<(), thalweg_hvd::HvdError>(())
    /// ```
    pub fn allreduce(&self, tensor: Tensor, op: ReduceOp) -> Result<Tensor, HvdError> {
        let kind = Collective::Reduce {
            op,
            prescale: 1.0,
            postscale: 1.0,
        };
        self.one("allreduce", kind, tensor)
    }

    /// As [`Hvd::allreduce`] of each tensor, in one exchange for each dtype: all of them are reduced, or none.
    ///
    /// # Errors
    /// As [`Hvd::allreduce`].
    ///
    /// ```
    /// use thalweg_hvd::{Hvd, ReduceOp};
    /// use thalweg_tensor::Tensor;
    ///
    /// let hvd = Hvd::init()?;
    /// let pair = [Tensor::vector(&[1.0f32, 2.0]), Tensor::scalar(3.0f32)];
    /// assert_eq!(hvd.grouped_allreduce(&pair, ReduceOp::Sum)?, pair);
    /// # Ok::<(), thalweg_hvd::HvdError>(())
    /// ```
    pub fn grouped_allreduce(
        &self,
        tensors: &[Tensor],
        op: ReduceOp,
    ) -> Result<Vec<Tensor>, HvdError> {
        crate::grouped::allreduce(tensors, op, |t| self.allreduce(t, op))
    }

    /// The rows of all ranks, in their order. Only the first dimension may differ.
    ///
    /// # Errors
    /// As [`Hvd::allreduce`].
    pub fn allgather(&self, tensor: Tensor) -> Result<Tensor, HvdError> {
        self.one("allgather", Collective::Gather, tensor)
    }

    /// The value of one rank.
    ///
    /// # Errors
    /// As [`Hvd::allreduce`].
    pub fn broadcast(&self, tensor: Tensor, root: usize) -> Result<Tensor, HvdError> {
        self.one("broadcast", Collective::Broadcast { root }, tensor)
    }

    /// The rows that all ranks give to this one, and how many came from each. `splits` says how many rows each is given.
    ///
    /// # Errors
    /// As [`Hvd::allreduce`].
    pub fn alltoall(&self, tensor: Tensor, splits: &[usize]) -> Result<(Tensor, Tensor), HvdError> {
        let splits = splits.to_vec();
        let mut all = self.call(
            "alltoall",
            Collective::Exchange { splits },
            tensor,
            ALL_RANKS,
        )?;
        let received = all.swap_remove(1);
        Ok((all.swap_remove(0), received))
    }

    /// This rank's rows of what [`Hvd::allreduce`] gives.
    ///
    /// # Errors
    /// As [`Hvd::allreduce`].
    pub fn reducescatter(&self, tensor: Tensor, op: ReduceOp) -> Result<Tensor, HvdError> {
        let kind = Collective::Scatter {
            op,
            prescale: 1.0,
            postscale: 1.0,
        };
        self.one("reducescatter", kind, tensor)
    }

    /// Returns once all ranks have called it.
    ///
    /// # Errors
    /// As [`Hvd::allreduce`].
    pub fn barrier(&self) -> Result<(), HvdError> {
        let nothing = Tensor::vector::<f32>(&[]);
        self.call("barrier", Collective::Barrier, nothing, ALL_RANKS)
            .map(|_| ())
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
