//! Collectives of ranks: all-reduce, broadcast, all-gather, reduce-scatter, all-to-all, barrier.

use std::time::Instant;

use thalweg_device::{ReduceOp, Reduction};
use thalweg_tensor::DType;

use super::{Ranks, sets, tag};
use crate::algorithm;
use crate::collective::Collective;
use crate::error::{CollectiveError, Result};
use crate::reduce::Reducer;

impl Ranks {
    /// Runs a collective of a set. An error ends the job for all ranks.
    fn run<R>(
        &mut self,
        set: i32,
        name: &str,
        run: impl FnOnce(&mut Collective<'_>) -> Result<R>,
    ) -> Result<R> {
        let (place, _) = self.place(set)?;
        if let Some(failure) = self.failure() {
            // Values that the others have posted before may still be in place.
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
            control.enter(name, Instant::now());
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

    /// Reduces the values of all ranks of a set; each gets the result.
    ///
    /// # Errors
    /// The job has ended, a rank does not come in time, or runs another collective under this name.
    pub fn all_reduce(
        &mut self,
        set: i32,
        name: &str,
        data: &mut [u8],
        dtype: DType,
        reduction: Reduction,
    ) -> Result<()> {
        let (_, size) = self.place(set)?;
        let factor = reduction.postscale;
        let adasum = reduction.op == ReduceOp::Adasum;
        let op = if adasum { ReduceOp::Sum } else { reduction.op };
        let reducer = Reducer::new(op, dtype, size, factor)?;
        let pre = Reducer::new(ReduceOp::Sum, dtype, 1, reduction.prescale)?;
        self.run(set, name, |collective| {
            pre.finish(data);
            if adasum {
                algorithm::adasum(&mut collective.channel()?, data, dtype)?;
                reducer.finish(data);
                return Ok(());
            }
            collective.all_reduce(data, reducer)
        })
    }

    /// Sends the value of the member at place `root` to all ranks of a set.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`]; [`CollectiveError::Argument`] if there is no such place.
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

    /// Concatenates the values of all ranks of a set into `output`; `lens` has the bytes of each.
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

    /// Reduces the values of all ranks of a set in parts: the member at place p has part p afterwards, and other parts are
    /// undefined. `lens` has the bytes of each part.
    ///
    /// # Errors
    /// As [`Ranks::all_reduce`].
    pub fn reduce_scatter(
        &mut self,
        set: i32,
        name: &str,
        data: &mut [u8],
        lens: &[usize],
        dtype: DType,
        reduction: Reduction,
    ) -> Result<()> {
        let (_, size) = self.place(set)?;
        let reducer = Reducer::new(reduction.op, dtype, size, reduction.postscale)?;
        let pre = Reducer::new(ReduceOp::Sum, dtype, 1, reduction.prescale)?;
        self.run(set, name, |c| {
            pre.finish(data);
            algorithm::reduce_scatter(&mut c.channel()?, data, &ranges(lens), reducer)
        })
    }

    /// Sends each rank of a set its part of the input, and receives a part from each: `sent` and `received` have the bytes.
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

    /// Returns after all ranks of a set have called it.
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

/// Adds the name of a collective to its error.
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

/// Consecutive ranges of these lengths.
fn ranges(lens: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut at = 0;
    let range = |&len: &usize| {
        at += len;
        at - len..at
    };
    lens.iter().map(range).collect()
}
