//! Options of planning: placement, parallelism, optimisation and wire dtypes.

use crate::wire_dtype::Wire;

/// Options of planning.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// `true` if a node whose device has no kernel for it, or does not exist, may run on another one
    /// of its task. Off, it is an error.
    pub soft_placement: bool,
    /// `true` if soft placement may not give a node a lesser type of device than it asks for.
    pub deny_fallback: bool,
    /// Parallelism of independent nodes.
    pub parallel: Parallel,
    /// `true` to fold constants, share equal nodes and fuse. Off, a step runs the graph as built.
    pub optimise: bool,
    /// Dtypes in which values are sent between the tasks of a cluster; their own, where there is none.
    pub wire: Option<Wire>,
}

/// Parallelism of a step's independent nodes on the threads of their devices. Large kernels split their own work over
/// those threads in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parallel {
    /// In parallel where a step is estimated to be shorter for it: handing a node to another thread takes longer than a
    /// small kernel.
    #[default]
    WhereWorth,
    /// In parallel wherever there is more than one thread.
    Always,
    /// In sequence.
    Never,
}
