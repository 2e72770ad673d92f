//! Ops of the nodes of parts.

use std::collections::HashMap;

use thalweg_graph::OpDef;
use thalweg_graph::flow::REGION;
use thalweg_graph::partition::{RECV, SEND};
use thalweg_graph::simplify::FEED;
use thalweg_ops::OpSet;

/// Ops that a part may contain, by name.
pub(crate) type OpTable = HashMap<&'static str, &'static OpDef>;

/// Returns the ops of a set, those at the cuts of a step, and the op of a region.
pub(crate) fn ops(set: &OpSet) -> OpTable {
    let ops = set.iter().map(|op| &op.def);
    let cut = [&FEED, &SEND, &RECV, &REGION];
    ops.chain(cut).map(|def| (def.name, def)).collect()
}

/// `true` for the ops at a cut, whose facts do not follow from their inputs: a message states them.
pub(super) fn is_cut_end(op: &OpDef) -> bool {
    std::ptr::eq(op, &FEED) || std::ptr::eq(op, &RECV)
}
