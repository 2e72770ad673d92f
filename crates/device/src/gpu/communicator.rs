//! What GPUs of several processes do together, one GPU of each rank.

use std::fmt;
use std::sync::Arc;

use super::{Driver, GpuError, Handle};
use crate::collectives::ReduceOp;
use crate::error::KernelError;

/// What a node of a GPU does together with those of other ranks: input 0 becomes output 0, of the same dtype and shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuCollective {
    /// Which ranks take part; 0 for all.
    pub set: i32,
    /// What they do.
    pub what: Exchange,
}

/// What GPUs do together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exchange {
    /// Gives every GPU the reduced value.
    Reduce {
        /// How; not by Adasum.
        op: ReduceOp,
        /// What each value is multiplied with before. Other than 1 only for sums and averages of floats.
        factor: f64,
    },
    /// Gives every GPU the value of one.
    Broadcast {
        /// Its number among all ranks in a node, and its place in the communicator in a command.
        root: usize,
    },
}

impl Exchange {
    /// Its name, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Exchange::Reduce { .. } => "all-reduce",
            Exchange::Broadcast { .. } => "broadcast",
        }
    }
}

/// Whether a wait for other ranks may go on: the watch of who waits.
pub type GoesOn = Arc<dyn Fn() -> bool + Send + Sync>;

/// Makes communicators: what a driver has for several processes.
///
/// # Safety
/// Commands of a communicator must touch nothing but what they name.
pub unsafe trait Communicators: fmt::Debug + Send + Sync {
    /// By what the ranks of a new communicator find each other: one rank asks for it, and tells the others.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn identity(&self) -> Result<Vec<u8>, GpuError>;

    /// Meets the other ranks: all of them call this with the same identity and size, each with its own place. It returns
    /// once all are there, or when `goes_on` gives false. Later waits of the communicator look at `goes_on` too.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn meet(
        &self,
        identity: &[u8],
        place: usize,
        size: usize,
        goes_on: GoesOn,
    ) -> Result<Handle, GpuError>;

    /// Ends what a communicator is doing, wherever it waits: its commands run no further, and what they write has no
    /// meaning. It is not used afterwards.
    fn abort(&self, communicator: Handle);

    /// Gives a communicator up. Its commands have run, or it was aborted.
    fn drop_communicator(&self, communicator: Handle);

    /// Whether all that was submitted to a queue has run: it does not wait.
    ///
    /// # Errors
    /// [`GpuError::Driver`], also of what was submitted.
    fn has_run(&self, queue: Handle) -> Result<bool, GpuError>;
}

/// A GPU's place among those of other ranks.
#[derive(Debug)]
pub struct Communicator {
    driver: Arc<dyn Driver>,
    handle: Handle,
    members: Vec<usize>,
}

impl Communicator {
    /// Meets the GPUs of these ranks, in this order, of which this is the one at `place`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn meet(
        driver: &Arc<dyn Driver>,
        identity: &[u8],
        (members, place): (Vec<usize>, usize),
        goes_on: GoesOn,
    ) -> Result<Communicator, GpuError> {
        let communicators = driver.communicators()?;
        let handle = communicators.meet(identity, place, members.len(), goes_on)?;
        Ok(Communicator {
            driver: driver.clone(),
            handle,
            members,
        })
    }

    /// The driver's number for it.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// The place of a rank, numbered among all.
    pub fn place_of(&self, rank: usize) -> Option<usize> {
        self.members.iter().position(|&m| m == rank)
    }

    /// As [`Communicators::abort`].
    pub fn abort(&self) {
        if let Ok(communicators) = self.driver.communicators() {
            communicators.abort(self.handle);
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if let Ok(communicators) = self.driver.communicators() {
            communicators.drop_communicator(self.handle);
        }
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
