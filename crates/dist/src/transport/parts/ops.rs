//! The ops that a part can have.

use std::collections::HashMap;

use thalweg_graph::OpDef;
use thalweg_graph::flow::REGION;
use thalweg_graph::partition::{RECV, SEND};
use thalweg_graph::simplify::FEED;

/// The ops that a part can have, by name.
pub(crate) type OpTable = HashMap<&'static str, &'static OpDef>;

/// Those of all kernels, those that stand where a step is cut, and the one that stands for a region.
pub(crate) fn ops() -> OpTable {
    let ops = thalweg_ops::ops().map(|op| &op.def);
    let cut = [&FEED, &SEND, &RECV, &REGION];
    ops.chain(cut).map(|def| (def.name, def)).collect()
}

/// Whether what is known of a node's outputs is said, as it does not follow.
pub(super) fn is_cut_end(op: &OpDef) -> bool {
    std::ptr::eq(op, &FEED) || std::ptr::eq(op, &RECV)
}
