//! Nodes that stand together are computed together: a pass over a graph that is about to be planned, and the ops that
//! only it makes.
//!
//! - What a product or a convolution is followed by (a bias, an activation) is done to its sums before they are stored.
//! - Elementwise ops that follow each other run piece by piece in one pass over memory.
//! - Where the gradient of a max pooling is computed in the same step, the pooling notes which pixel of each window is the
//!   largest, in a byte: the images that were pooled need not be kept, nor read again.
//!
//! What the graph says is what is computed: only values that nothing else uses are left out. Sums over the gradient of a
//! pooling are taken in another order.

mod chain;
mod chains;
mod epilogues;
mod links;
mod pools;
mod work;

use thalweg_device::{Cpu, Op};
use thalweg_graph::simplify::Simplified;
use thalweg_graph::{Attr, Node};
use thalweg_tensor::DType;

use work::Work;

/// The ops that the pass makes. No graph names them, but for what a session shows of its plans.
pub(crate) const OPS: &[&Op] = &[
    &crate::linalg::FUSED_MAT_MUL,
    &crate::nn::FUSED_CONV_2D,
    &crate::nn::MAX_POOL_WHICH,
    &crate::nn::MAX_POOL_GRAD_WHICH,
    &chain::CHAIN,
];

/// What fused products and convolutions are computed in.
pub(crate) const FUSED: &[DType] = &[DType::F32, DType::F64];

/// What a graph will run on.
pub struct Machine<'a> {
    /// By number of a device: the CPU that it is. Where it is none, nodes stay as they are.
    pub cpus: &'a [Option<&'a Cpu>],
    /// The op of this name, with its kernels.
    pub op: &'a dyn Fn(&str) -> Option<&'static Op>,
}

/// The same graph, with nodes in place of several that stand together on one device.
pub fn fuse(simplified: Simplified, machine: &Machine<'_>) -> Simplified {
    let mut work = Work::new(simplified, machine);
    pools::gradients_before_pools(&mut work);
    pools::sums_before_pools(&mut work);
    pools::by_number(&mut work);
    epilogues::into_producers(&mut work);
    chains::into_chains(&mut work);
    work.finish()
}

/// The attribute of a node that stands for several: their names, in their order.
const NODES: &str = "_nodes";

/// The nodes that a fused node stands for, by name; none of another node.
pub fn members(node: &Node) -> Vec<String> {
    names(node, NODES)
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
