//! All ops, each defined in one place: its inputs, outputs and attributes, its shape rule, its gradient and its
//! kernels. Builder methods are traits on `Graph` and `Output`.
//!
//! A layer, by builder methods and by the name of an op:
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{LinalgOps, NewGraph, NnOps, RandomOps, SourceOps, StateOps};
//! use thalweg_tensor::{DType, Shape};
//!
//! let g = Graph::new();
//! let images = g.placeholder("images", DType::F32, [-1, 784]);
//! let weights = g.variable("weights", g.truncated_normal([784, 10], 0.0, 0.1, DType::F32, Some(1)));
//! let scores = images.matmul(weights).relu();
//! let again = g.op("Relu").input(images.matmul(weights)).output();
//! assert_eq!(scores.shape(), Shape::from([-1, 10]));
//! assert_eq!(again.shape(), scores.shape());
//! assert!(g.errors().is_empty());
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use thalweg_device::Op;
use thalweg_graph::Graph;

mod array;
mod collective;
mod data;
mod families;
mod files;
mod flow;
pub mod fused;
pub mod gpu;
#[cfg(feature = "image")]
mod image;
mod linalg;
mod lookup;
mod math;
mod nn;
mod op_set;
mod queue;
mod ragged;
mod random;
mod reduce;
mod reports;
mod rnn;
#[cfg(feature = "fft")]
mod signal;
mod sparse;
mod state;
mod statistics;
mod strings;
mod support;
mod training;

pub use array::{ArrayOps, Index, NewAxis, Part, Rest, SourceOps};
pub use collective::{ALL_RANKS, CollectiveOps, RankOps, gpu_collective, planned_collective};
pub use families::ops;
pub use flow::FlowOps;
pub use linalg::LinalgOps;
pub use math::{MathOps, SumOps};
pub use nn::{DataFormat, NnOps, Padding};
pub use op_set::{OpSet, OpSetError};
pub use random::{DropoutOps, RandomOps};
pub use reduce::ReduceOps;
pub use reports::{SummaryOps, encode as summaries};
pub use state::{PartitionedVariable, Split, StateOps, Variable};
pub use statistics::{ClusterOutputs, StatisticsOps};
pub use thalweg_device::{ReduceOp, Reduction};

/// All ops by name, with their kernels, and the fused ops that only the planner adds.
///
/// ```
/// use thalweg_device::{Argument, Cpu, evaluate};
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, SourceOps};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), thalweg_device::KernelError> {
/// let g = Graph::new();
/// let square = g.constant([0.0f32, 0.0]).square();
/// // One node, without a session.
/// let node = g.snapshot().node(square.id().node).clone();
/// let given = Tensor::vector(&[3.0f32, 4.0]);
/// let op = thalweg_ops::kernels()[node.op.name];
/// let found = evaluate(&Cpu::new(1), op, &node, &[Argument::Value(&given)], None)?;
/// assert_eq!(found[0], Tensor::vector(&[9.0f32, 16.0]));
/// # Ok(())
/// # }
/// ```
pub fn kernels() -> HashMap<&'static str, &'static Op> {
    OpSet::default().kernels()
}

/// Constructors of graphs with all ops of this crate.
pub trait NewGraph {
    /// An empty graph.
    #[allow(
        clippy::new_ret_no_self,
        reason = "it stands for `Graph::new`, which cannot be said in the crate that does not know the ops"
    )]
    fn new() -> Graph;

    /// An empty graph with the ops of a set: all of this crate, and a program's own.
    fn with_ops(ops: &OpSet) -> Graph;
}

impl NewGraph for Graph {
    fn new() -> Graph {
        Graph::with_ops(&OpSet::default())
    }

    fn with_ops(ops: &OpSet) -> Graph {
        Graph::with_registry(Arc::new(ops.registry()))
    }
}
