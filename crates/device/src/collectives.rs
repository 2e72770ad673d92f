//! What ranks do together: processes that run the same graph, each on data of its own.
//!
//! A session that is one of several ranks has [`Collectives`]. The kernels of collective ops hand their values to it
//! and wait, without a thread, for what it gives back.
//!
//! One rank alone needs nobody:
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

/// What ranks do together.
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
        /// By rank: how many rows it is given. Their sum is the first dimension of the input.
        splits: Vec<usize>,
    },
    /// Waits for all. The input has no elements and means nothing. No result.
    Barrier,
}

/// What a node asks for.
#[derive(Clone, Debug)]
pub struct CollectiveRequest {
    /// The name of the node, which is that of the collective on every rank.
    pub name: String,
    /// Which ranks take part; 0 for all.
    pub set: i32,
    /// What they do.
    pub kind: Collective,
    /// This rank's value.
    pub input: Tensor,
}

/// The place of this rank among those of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankOf {
    /// Its number, from 0.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
}

/// A collective that a plan will run. Its text is one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlannedCollective {
    /// The name of the node.
    pub name: String,
    /// Which ranks take part; 0 for all.
    pub set: i32,
    /// Its op, with what must be the same on all ranks.
    pub op: String,
    /// The dtype of what goes between ranks.
    pub dtype: DType,
    /// Its dimensions; `None` for one that is not known, or that may differ between ranks.
    pub dims: Vec<Option<usize>>,
    /// Whether GPUs do it without their hosts.
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

/// What carries values between ranks.
///
/// A plan runs its collectives one after the other, in the same order on every rank: no two of one step are under way
/// at the same time, unless ranks negotiate. Steps that a program runs at the same time on one session are not ordered against each other.
pub trait Collectives: Send + Sync {
    /// The place of this rank in a set; 0 is the set of all.
    ///
    /// # Errors
    /// There is no such set, or this rank is not in it.
    fn ranks(&self, set: i32) -> Result<RankOf, KernelError>;

    /// Begins a collective the first time that a ticket asks, and gives the results once they are there. `None` until
    /// then: the ticket is woken when they are, and asks again. `request` is called once, the first time. Results lie in
    /// `memory`.
    ///
    /// # Errors
    /// A rank was lost, the ranks' values do not fit each other, or what `request` returns.
    fn run(
        &self,
        ticket: &Ticket,
        memory: &Arc<Memory>,
        request: &mut dyn FnMut() -> Result<CollectiveRequest, KernelError>,
    ) -> Result<Option<Vec<Tensor>>, KernelError>;

    /// The step ended while the node of this ticket waited. It does not ask again. Called at most once for a ticket,
    /// perhaps for one whose collective has failed.
    fn abandon(&self, ticket: u64);

    /// Compares what a plan will run, in order, with what the other ranks will run: of each set, its ranks have the same.
    /// Called before the first step of each plan that has collectives, and again before the next one where it failed.
    /// What was agreed on before is agreed on without the others: a rank may plan the same again, for feeds of other
    /// shapes, when they do not. Called by the thread that runs the step: it may block, and looks at `ended` every few
    /// milliseconds.
    ///
    /// # Errors
    /// The ranks do not plan the same, with the first difference. A rank was lost. [`KernelError::Stopped`] where
    /// `ended` gives true: the step is over.
    fn agree(
        &self,
        planned: &[PlannedCollective],
        ended: &dyn Fn() -> bool,
    ) -> Result<(), KernelError>;

    /// Whether ranks may run the collectives of a step in different orders: what carries values waits for each of them until all
    /// ranks are ready. Plans are not compared then.
    fn negotiates(&self) -> bool {
        false
    }

    /// What carries the values of GPUs without their host. Where there is nothing, collectives that stand on a GPU run on
    /// its host.
    fn for_gpus(&self) -> Option<&dyn GpuCollectives> {
        None
    }
}

/// What carries the values of GPUs between ranks, and says whether a wait for them makes sense.
pub trait GpuCollectives: Send + Sync {
    /// The communicator of the GPUs of a set, for the card of this driver. The first call meets the other ranks of the set,
    /// and blocks until they come: all of them have agreed on a plan that needs it.
    ///
    /// # Errors
    /// There is no such set, the driver has no communicators, or a rank was lost.
    fn communicator(
        &self,
        set: i32,
        driver: &Arc<dyn Driver>,
    ) -> Result<Arc<Communicator>, KernelError>;

    /// A step waits for the collectives of a set, of which this is the first: it is told when that begins, every few
    /// milliseconds, and when it has ended (`None`).
    ///
    /// # Errors
    /// A rank was lost, or does not come: the wait ends.
    fn waits(&self, first: Option<(i32, &str)>) -> Result<(), KernelError>;

    /// A step has ended between collectives of which the other ranks run the rest: it ends the job.
    fn abandon(&self, why: &str);
}
