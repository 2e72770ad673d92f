//! Collectives between the GPUs of several ranks.

use crate::reduction::ReduceOp;

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
