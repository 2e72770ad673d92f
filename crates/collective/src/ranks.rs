//! The ranks of a job, as one of them sees them.

mod joining;
mod measured;
mod sets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_tensor::DType;

use crate::algorithm::{self, Algorithm};
use crate::collective::{Collective, Set};
use crate::control::{Control, Coordinator};
use crate::cost::Cost;
use crate::error::{CollectiveError, Result};
use crate::join::Patience;
use crate::links::Links;
use crate::reduce::Reducer;
use thalweg_device::ReduceOp;

/// The set of all ranks.
pub const ALL_RANKS: i32 = 0;

/// This process as one of the ranks of a job. All ranks must call the same methods in the same order.
pub struct Ranks {
    rank: usize,
    /// By rank: the number of its host.
    hosts: Vec<usize>,
    control: Option<Arc<Control>>,
    links: Box<dyn Links>,
    sets: BTreeMap<i32, Set>,
    cost: Cost,
    memory: bool,
    negotiates: bool,
    patience: Patience,
    /// Where the ranks meet, if it is in this process. It goes last.
    coordinator: Option<Coordinator>,
}

impl Drop for Ranks {
    /// The rank that has the coordinator stays until the others have left, or something ended the job. They say so before
    /// their links end: those of MPI end together.
    fn drop(&mut self) {
        if let Some(control) = &self.control {
            control.leave_job();
        }
        let Some(coordinator) = &self.coordinator else {
            return;
        };
        let began = std::time::Instant::now();
        while coordinator.ranks() > 0
            && self.failure().is_none()
            && began.elapsed() < self.patience.meet
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What is reduced, and how.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// The reduction.
    pub op: ReduceOp,
    /// The dtype of the elements.
    pub dtype: DType,
    /// What each value is multiplied by first.
    pub prescale: f64,
    /// What the result is multiplied by.
    pub postscale: f64,
}

impl Reduction {
    /// One without factors.
    pub fn new(op: ReduceOp, dtype: DType) -> Reduction {
        Reduction {
            op,
            dtype,
            prescale: 1.0,
            postscale: 1.0,
        }
    }
}

impl Ranks {
    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.hosts.len()
    }

    /// The number of this rank among those of its host, and how many those are.
    pub fn local(&self) -> (usize, usize) {
        let own = self.hosts[self.rank];
        let local = self.hosts.iter().filter(|&&h| h == own).count();
        let before = self.hosts[..self.rank].iter().filter(|&&h| h == own);
        (before.count(), local)
    }

    /// The number of this rank's host among those that have a rank of this local number, and how many those are.
    pub fn cross(&self) -> (usize, usize) {
        let (local, _) = self.local();
        let count = |host: usize| self.hosts.iter().filter(|&&h| h == host).count();
        let hosts = self.hosts.iter().max().map_or(1, |m| m + 1);
        let with = (0..hosts).filter(|&h| count(h) > local);
        let with: Vec<usize> = with.collect();
        let own = self.hosts[self.rank];
        (with.iter().filter(|&&h| h < own).count(), with.len())
    }

    /// Whether all hosts have as many ranks.
    pub fn is_homogeneous(&self) -> bool {
        let hosts = self.hosts.iter().max().map_or(1, |m| m + 1);
        let count = |host: usize| self.hosts.iter().filter(|&&h| h == host).count();
        (0..hosts).all(|h| count(h) == count(0))
    }

    /// How values are reduced over links from now on: by this algorithm, or by the cheapest. All ranks must say the same.
    pub fn choose(&mut self, algorithm: Option<Algorithm>) {
        self.cost.only = algorithm;
    }

    /// What messages cost, by which algorithms are chosen: measured where ranks are on several hosts, and assumed within one.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Whether each collective is announced first: see [`Join::negotiated`](crate::Join::negotiated).
    pub(crate) fn negotiates(&self) -> bool {
        self.negotiates
    }

    pub(crate) fn control(&self) -> Option<Arc<Control>> {
        self.control.clone()
    }

    /// What ended the job, if anything did.
    pub fn failure(&self) -> Option<CollectiveError> {
        self.control.as_ref()?.failure()
    }

    /// Ends the job for all ranks, for this reason.
    pub fn fail(&self, error: &CollectiveError) {
        if let Some(control) = &self.control {
            control.fail(error);
        }
    }

    /// Runs a collective of a set: what goes wrong ends the job for all.
    fn run<R>(
        &mut self,
        set: i32,
        name: &str,
        run: impl FnOnce(&mut Collective<'_>) -> Result<R>,
    ) -> Result<R> {
        let (place, _) = self.place(set)?;
        if let Some(failure) = self.failure() {
            // What the others have posted before may still be there.
            return Err(failure);
        }
        let found = self.sets.get_mut(&set).ok_or_else(|| sets::unknown(set))?;
        let mut collective = Collective {
            links: &mut *self.links,
            set: found,
            place,
            tag: tag(set, name),
            cost: &self.cost,
        };
        if let Some(control) = &self.control {
            control.enter(name);
        }
        let result = run(&mut collective);
        if let Some(control) = &self.control {
            control.leave();
        }
        result.map_err(|error| {
            let error = named(error, name);
            if let Some(control) = &self.control {
                control.fail(&error);
            }
            error
        })
    }

    /// Reduces the values of all ranks of a set, to all of them.
    ///
    /// # Errors
    /// What ended the job, ranks that do not come, and ranks that run something else under this name.
    pub fn all_reduce(
        &mut self,
        set: i32,
        name: &str,
        data: &mut [u8],
        reduction: Reduction,
    ) -> Result<()> {
        let (_, size) = self.place(set)?;
        let factor = reduction.postscale;
        let adasum = reduction.op == ReduceOp::Adasum;
        let op = if adasum { ReduceOp::Sum } else { reduction.op };
        let reducer = Reducer::new(op, reduction.dtype, size, factor)?;
        let pre = Reducer::new(ReduceOp::Sum, reduction.dtype, 1, reduction.prescale)?;
        self.run(set, name, |collective| {
            pre.finish(data);
            if adasum {
                algorithm::adasum(&mut collective.channel()?, data, reduction.dtype)?;
                reducer.finish(data);
                return Ok(());
            }
            collective.all_reduce(data, reducer)
        })
    }

    /// Gives the value of the member of a set at this place to all of the set.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`]; [`CollectiveError::Argument`] where there is no such place.
    pub fn broadcast(&mut self, set: i32, name: &str, root: usize, data: &mut [u8]) -> Result<()> {
        let (_, size) = self.place(set)?;
        if root >= size {
            let text = format!("{name}: root {root} is not among the {size} ranks of set {set}");
            return Err(CollectiveError::Argument(text));
        }
        let tag = tag(set, name);
        self.run(set, name, |c| match c.memory() {
            Some(memory) => memory.broadcast(tag, root, data),
            _ => algorithm::broadcast(&mut c.channel()?, root, data),
        })
    }

    /// Puts the values of all ranks of a set one after another: `lens` has the bytes of each, `output` room for all.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`].
    pub fn all_gather(
        &mut self,
        set: i32,
        name: &str,
        own: &[u8],
        lens: &[usize],
        output: &mut [u8],
    ) -> Result<()> {
        let tag = tag(set, name);
        self.run(set, name, |c| match c.memory() {
            Some(memory) => memory.all_gather(tag, own, lens, output),
            _ => algorithm::all_gather(&mut c.channel()?, own, lens, output),
        })
    }

    /// Reduces the values of all ranks of a set, in parts: the member at place p has part p afterwards, and nothing else has
    /// a meaning. `parts` has the bytes of each.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`].
    pub fn reduce_scatter(
        &mut self,
        set: i32,
        name: &str,
        data: &mut [u8],
        lens: &[usize],
        reduction: Reduction,
    ) -> Result<()> {
        let (_, size) = self.place(set)?;
        let reducer = Reducer::new(reduction.op, reduction.dtype, size, reduction.postscale)?;
        let pre = Reducer::new(ReduceOp::Sum, reduction.dtype, 1, reduction.prescale)?;
        self.run(set, name, |c| {
            pre.finish(data);
            algorithm::reduce_scatter(&mut c.channel()?, data, &ranges(lens), reducer)
        })
    }

    /// Sends each rank of a set its part of the input, and receives parts of theirs: `sent` and `received` have the bytes.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`].
    pub fn all_to_all(
        &mut self,
        set: i32,
        name: &str,
        (input, sent): (&[u8], &[usize]),
        (output, received): (&mut [u8], &[usize]),
    ) -> Result<()> {
        self.run(set, name, |c| {
            let (sent, received) = (ranges(sent), ranges(received));
            algorithm::all_to_all(&mut c.channel()?, input, &sent, output, &received)
        })
    }

    /// Returns once all ranks of a set have called it.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`].
    pub fn barrier(&mut self, set: i32, name: &str) -> Result<()> {
        let tag = tag(set, name);
        self.run(set, name, |c| match c.memory() {
            Some(memory) => memory.barrier(tag),
            _ => algorithm::barrier(&mut c.channel()?),
        })
    }
}

/// Tells messages of a collective from those of others: FNV-1a of its set and name.
pub(crate) fn tag(set: i32, name: &str) -> u64 {
    let bytes = set.to_le_bytes().into_iter().chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An error with the name of the collective that met it.
fn named(error: CollectiveError, name: &str) -> CollectiveError {
    match error {
        CollectiveError::Differs { rank, theirs, ours } => CollectiveError::Differs {
            rank,
            theirs,
            ours: format!("'{name}', {ours}"),
        },
        CollectiveError::Late { rank, what, waited } => CollectiveError::Late {
            rank,
            what: format!("{what} of '{name}'"),
            waited,
        },
        other => other,
    }
}

/// Ranges of these lengths, one after another.
fn ranges(lens: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut at = 0;
    let range = |&len: &usize| {
        at += len;
        at - len..at
    };
    lens.iter().map(range).collect()
}
