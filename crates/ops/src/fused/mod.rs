//! Fused ops, which stand for several ops of a graph, and their attributes. Users' graphs cannot name them; the planner's
//! rules create them.
//!
//! A trace or a dump shows fused nodes. [`members`] lists the graph's nodes that a fused node stands for.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::fused::{FUSED_MAT_MUL, members};
//! use thalweg_ops::{MathOps, NewGraph, SourceOps};
//!
//! // Sessions have their kernels, and graphs cannot name them.
//! let name = FUSED_MAT_MUL.def.name;
//! assert!(thalweg_ops::kernels().contains_key(name));
//! let g = Graph::new();
//! assert!(g.registry().get(name).is_none());
//!
//! let y = g.constant(4.0f32).sqrt();
//! assert!(members(g.snapshot().node(y.id().node)).is_empty());
//! ```

pub mod chain;
mod chain_run;
mod input_kind;

use thalweg_device::Op;
use thalweg_graph::{Attr, Node};

pub use crate::linalg::FUSED_MAT_MUL;
pub use crate::nn::{
    FUSED_BATCH_NORM_EX, FUSED_BATCH_NORM_GRAD_EX, FUSED_CONV_2D, FUSED_DEPTHWISE_CONV_2D,
    MAX_POOL_GRAD_STORED_ARGMAX, MAX_POOL_STORE_ARGMAX, RELU_GRAD_SUM,
};
pub use crate::support::epilogue::{DTYPES, FUSED_OPS, FusedOps, HARD_SWISH, SWISH};

/// All fused ops.
pub(crate) const OPS: &[&Op] = &[
    &FUSED_MAT_MUL,
    &FUSED_CONV_2D,
    &FUSED_DEPTHWISE_CONV_2D,
    &FUSED_BATCH_NORM_EX,
    &FUSED_BATCH_NORM_GRAD_EX,
    &RELU_GRAD_SUM,
    &MAX_POOL_STORE_ARGMAX,
    &MAX_POOL_GRAD_STORED_ARGMAX,
    &chain::CHAIN,
];

/// Attribute of a fused node: names of the nodes that it stands for, in order.
pub const MEMBERS: &str = "_nodes";

/// Names of the nodes that a fused node stands for; empty for another node.
pub fn members(node: &Node) -> Vec<String> {
    names(node, MEMBERS)
}

/// Names of the ops of a chain; empty for another node.
pub fn ops(node: &Node) -> Vec<String> {
    names(node, chain::OPS)
}

fn names(node: &Node, attr: &str) -> Vec<String> {
    match node.attrs.get(attr) {
        Some(Attr::Strs(names)) if OPS.iter().any(|op| std::ptr::eq(node.op, &op.def)) => {
            let name = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
            names.iter().map(name).collect()
        }
        _ => Vec::new(),
    }
}
