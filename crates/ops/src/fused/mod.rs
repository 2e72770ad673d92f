//! The ops that fusion makes of others, and what their attributes say. No graph of a user names them. The rules that make
//! them are the planner's.
//!
//! A trace or a dump shows fused nodes. [`members`] says which of the graph's nodes one stands for.
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
mod links;

use thalweg_device::Op;
use thalweg_graph::{Attr, Node};
use thalweg_tensor::DType;

pub use crate::epilogue::{FUSED_OPS, FusedOps};
pub use crate::linalg::FUSED_MAT_MUL;
pub use crate::nn::{
    FUSED_BATCH_NORM_EX, FUSED_CONV_2D, MAX_POOL_GRAD_STORED_ARGMAX, MAX_POOL_STORE_ARGMAX,
};

/// The ops.
pub(crate) const OPS: &[&Op] = &[
    &FUSED_MAT_MUL,
    &FUSED_CONV_2D,
    &FUSED_BATCH_NORM_EX,
    &MAX_POOL_STORE_ARGMAX,
    &MAX_POOL_GRAD_STORED_ARGMAX,
    &chain::CHAIN,
];

/// The dtypes that GEMMs and convolutions with an epilogue compute in.
pub const DTYPES: &[DType] = &[DType::F32, DType::F64];

/// The attribute of a node that stands for several: their names, in their order.
pub const MEMBERS: &str = "_nodes";

/// The nodes that a fused node stands for, by name; none of another node.
pub fn members(node: &Node) -> Vec<String> {
    names(node, MEMBERS)
}

/// The ops of a chain, by name; none of another node.
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
