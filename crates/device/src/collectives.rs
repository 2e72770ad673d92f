//! The interface `Collectives`, by which kernels exchange values between ranks: processes that run the same graph, each
//! on data of its own.
//!
//! A session that is one of several ranks has [`Collectives`]. The kernels of collective ops submit their values to it
//! and wait, without a thread, for the results.
//!
//! An implementation for one rank alone:
//!
//! ```
//! use std::sync::Arc;
//! use thalweg_device::collectives::{
//!     Collective, CollectiveRequest, Collectives, PlannedCollective, RankOf,
//! };
//! use thalweg_device::{KernelError, ReduceOp, Ticket};
//! use thalweg_tensor::{DType, Memory, Tensor};
//!
//! struct Alone;
//!
//! impl Collectives for Alone {
//!     fn ranks(&self, _set: i32) -> Result<RankOf, KernelError> {
//!         Ok(RankOf { rank: 0, size: 1 })
//!     }
//!
//!     fn run(
//!         &self,
//!         _ticket: &Ticket,
//!         _memory: &Arc<Memory>,
//!         request: &mut dyn FnMut() -> Result<CollectiveRequest, KernelError>,
//!     ) -> Result<Option<Vec<Tensor>>, KernelError> {
//!         let request = request()?;
//!         Ok(Some(match request.kind {
//!             Collective::Barrier => Vec::new(),
//!             Collective::Exchange { splits } => {
//!                 let received = splits.iter().map(|&n| n as i32).collect::<Vec<_>>();
//!                 vec![request.input, Tensor::from(received)]
//!             }
//!             // The scales of a reduction are left out here.
//!             _ => vec![request.input],
//!         }))
//!     }
//!
//!     fn abandon(&self, _ticket: u64) {}
//!
//!     fn agree(
//!         &self,
//!         _planned: &[PlannedCollective],
//!         _ended: &dyn Fn() -> bool,
//!     ) -> Result<(), KernelError> {
//!         Ok(())
//!     }
//! }
//!
//! let mut request = || {
//!     Ok(CollectiveRequest {
//!         name: "loss".to_owned(),
//!         set: 0,
//!         kind: Collective::Reduce(ReduceOp::Sum.into()),
//!         input: Tensor::vector(&[1.0f32, 2.0]),
//!     })
//! };
//! let (ticket, memory) = (Ticket::new(1, || {}), Arc::new(Memory::new(None)));
//! let sums = Alone.run(&ticket, &memory, &mut request).unwrap().unwrap();
//! assert_eq!(sums, [Tensor::vector(&[1.0f32, 2.0])]);
//!
//! let planned = PlannedCollective {
//!     name: "loss".to_owned(),
//!     set: 0,
//!     op: "HorovodAllreduce(sum)".to_owned(),
//!     dtype: DType::F32,
//!     dims: vec![None, Some(2)],
//!     on_gpus: false,
//! };
//! assert_eq!(planned.to_string(), "loss = HorovodAllreduce(sum) f32[?,2]");
//! ```

use std::fmt;
use std::sync::Arc;

use thalweg_tensor::{DType, Memory, Tensor};

use crate::error::KernelError;
use crate::gpu::{Communicator, Driver};
use crate::reduction::Reduction;
use crate::ticket::Ticket;

/// A collective operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Collective {
    /// Gives every rank the reduced value. Inputs have one dtype and shape. One result, of that shape.
    Reduce(Reduction),
    /// Gives every rank the rows of all, in the order of ranks. Only the first dimension of inputs may differ. One
    /// result.
    Gather,
    /// Gives every rank the value of one. Inputs have one dtype and shape. One result, of that shape.
    Broadcast {
        /// Its number among all ranks, whatever the set.
        root: usize,
    },
    /// Gives every rank a part of the rows of the reduced value. Earlier ranks get one row more where the rows are no
    /// multiple of the ranks. Inputs have one dtype and shape. One result.
    Scatter(Reduction),
    /// Gives every rank some rows of each. Two results: the rows that came, in the order of ranks, and how many came
    /// from each, i32.
    Exchange {
        /// By rank: the number of rows that it gets. Their sum is the first dimension of the input.
        splits: Vec<usize>,
    },
    /// Waits for all. The input has no elements and means nothing. No result.
    Barrier,
}

/// The request of a node.
#[derive(Clone, Debug)]
pub struct CollectiveRequest {
    /// The name of the node, which is that of the collective on every rank.
    pub name: String,
    /// The set of ranks; 0 for all.
    pub set: i32,
    /// The collective.
    pub kind: Collective,
    /// This rank's value.
    pub input: Tensor,
}

/// The place of this rank among those of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankOf {
    /// Its number, from 0.
    pub rank: usize,
    /// Number of ranks of the set.
    pub size: usize,
}

/// A collective that a plan will run. Its text is one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlannedCollective {
    /// The name of the node.
    pub name: String,
    /// The set of ranks; 0 for all.
    pub set: i32,
    /// Its op, with the parameters that must be the same on all ranks.
    pub op: String,
    /// The dtype of the values that ranks exchange.
    pub dtype: DType,
    /// Its dimensions; `None` for one that is not known, or that may differ between ranks.
    pub dims: Vec<Option<usize>>,
    /// `true` if it runs between GPUs without their hosts.
    pub on_gpus: bool,
}

impl fmt::Display for PlannedCollective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dim = |d: &Option<usize>| d.map_or("?".to_owned(), |d| d.to_string());
        let dims: Vec<String> = self.dims.iter().map(dim).collect();
        let (name, op, dtype) = (&self.name, &self.op, self.dtype);
        write!(f, "{name} = {op} {dtype}[{}]", dims.join(","))?;
        if self.set != 0 {
            write!(f, " in set {}", self.set)?;
        }
        match self.on_gpus {
            true => f.write_str(", between GPUs"),
            false => Ok(()),
        }
    }
}

/// The transport of values between ranks.
///
/// A plan runs its collectives one after the other, in the same order on every rank: no two of one step are under way
/// at the same time, unless ranks negotiate. Steps that a program runs at the same time on one session are not ordered against each other.
pub trait Collectives: Send + Sync {
    /// Returns the place of this rank in a set; 0 is the set of all.
    ///
    /// # Errors
    /// There is no such set, or this rank is not in it.
    fn ranks(&self, set: i32) -> Result<RankOf, KernelError>;

    /// Begins a collective the first time that it is called with a ticket, and returns the results once they are there.
    /// `None` until then: the ticket is woken when they are, and the node calls again. `request` is called once, the
    /// first time. Results lie in `memory`.
    ///
    /// # Errors
    /// A rank was lost, the ranks' values do not fit each other, or the error of `request`.
    fn run(
        &self,
        ticket: &Ticket,
        memory: &Arc<Memory>,
        request: &mut dyn FnMut() -> Result<CollectiveRequest, KernelError>,
    ) -> Result<Option<Vec<Tensor>>, KernelError>;

    /// Abandons the collective of a ticket: the step ended while its node waited. It does not call again. Called at
    /// most once for a ticket, perhaps for one whose collective has failed.
    fn abandon(&self, ticket: u64);

    /// Compares the collectives that a plan will run, in order, with those of the other ranks: all ranks of a set must
    /// have the same. Called before the first step of each plan that has collectives, and again before the next one
    /// where it failed. A plan that was agreed on before needs no agreement: a rank may plan the same again, for feeds
    /// of other shapes, when the others do not. Called by the thread that runs the step: it may block, and checks
    /// `ended` every few milliseconds.
    ///
    /// # Errors
    /// The ranks do not plan the same, with the first difference. A rank was lost. [`KernelError::Stopped`] where
    /// `ended` returns true: the step is over.
    fn agree(
        &self,
        planned: &[PlannedCollective],
        ended: &dyn Fn() -> bool,
    ) -> Result<(), KernelError>;

    /// `true` if ranks may run the collectives of a step in different orders: the transport delays each of them until
    /// all ranks are ready. Plans are not compared then.
    fn negotiates(&self) -> bool {
        false
    }

    /// Returns the transport between GPUs that bypasses their hosts. Where there is none, collectives that are placed
    /// on a GPU run on its host.
    fn for_gpus(&self) -> Option<&dyn GpuCollectives> {
        None
    }
}

/// The transport of GPUs' values between ranks.
pub trait GpuCollectives: Send + Sync {
    /// Returns the communicator of the GPUs of a set that have this number in their tasks; on this rank it is one of the card
    /// of this driver. The first call meets the other ranks of the set, and blocks until they come: all of them have
    /// agreed on a plan that needs it.
    ///
    /// # Errors
    /// There is no such set, the driver has no communicators, or a rank was lost.
    fn communicator(
        &self,
        set: i32,
        number: u32,
        driver: &Arc<dyn Driver>,
    ) -> Result<Arc<Communicator>, KernelError>;

    /// Reports that a step waits for the collectives of a set, of which this is the first: called when the wait begins,
    /// every few milliseconds, and when it has ended (`None`).
    ///
    /// # Errors
    /// A rank was lost, or does not come: the wait ends.
    fn waits(&self, first: Option<(i32, &str)>) -> Result<(), KernelError>;

    /// Ends the job: a step has ended between collectives of which the other ranks run the rest.
    fn abandon(&self, why: &str);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_collective_is_one_line_by_which_ranks_compare() {
        let planned = |set, dims: &[Option<usize>], on_gpus| PlannedCollective {
            name: "loss".to_owned(),
            set,
            op: "HorovodAllreduce(sum)".to_owned(),
            dtype: DType::F32,
            dims: dims.to_vec(),
            on_gpus,
        };
        for (planned, text) in [
            (planned(0, &[], false), "f32[]"),
            (planned(0, &[Some(3), None], false), "f32[3,?]"),
            (planned(2, &[Some(3)], false), "f32[3] in set 2"),
            (planned(0, &[Some(3)], true), "f32[3], between GPUs"),
            (
                planned(-1, &[Some(3)], true),
                "f32[3] in set -1, between GPUs",
            ),
        ] {
            let text = format!("loss = HorovodAllreduce(sum) {text}");
            assert_eq!(planned.to_string(), text);
        }
    }

    /// Ranks without an option.
    struct Plain;

    impl Collectives for Plain {
        fn ranks(&self, _: i32) -> Result<RankOf, KernelError> {
            Err(KernelError::NoRanks)
        }

        fn run(
            &self,
            _: &Ticket,
            _: &Arc<Memory>,
            _: &mut dyn FnMut() -> Result<CollectiveRequest, KernelError>,
        ) -> Result<Option<Vec<Tensor>>, KernelError> {
            Ok(None)
        }

        fn abandon(&self, _: u64) {}

        fn agree(&self, _: &[PlannedCollective], _: &dyn Fn() -> bool) -> Result<(), KernelError> {
            Ok(())
        }
    }

    #[test]
    fn ranks_have_one_order_and_nothing_for_gpus_unless_they_say_so() {
        assert!(!Plain.negotiates() && Plain.for_gpus().is_none());
    }
}
