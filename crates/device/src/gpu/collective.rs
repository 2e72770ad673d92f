//! Collectives between the GPUs of several ranks.

use crate::reduction::ReduceOp;

/// A collective of a GPU's node with other ranks: input 0 becomes output 0, of the same dtype and shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuCollective {
    /// The set of ranks; 0 for all.
    pub set: i32,
    /// The collective.
    pub kind: GpuCollectiveKind,
}

/// A collective between GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GpuCollectiveKind {
    /// Gives every GPU the reduced value.
    Reduce {
        /// The reduction; not Adasum.
        op: ReduceOp,
        /// Factor of each value. Other than 1 only for sums and averages of floats.
        factor: f64,
    },
    /// Gives every GPU the value of one.
    Broadcast {
        /// Its number among all ranks in a node, and its place in the communicator in a command.
        root: usize,
    },
}

impl GpuCollectiveKind {
    /// Returns its name.
    pub fn name(&self) -> &'static str {
        match self {
            GpuCollectiveKind::Reduce { .. } => "all-reduce",
            GpuCollectiveKind::Broadcast { .. } => "broadcast",
        }
    }
}
