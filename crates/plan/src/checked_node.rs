//! Nodes that passes add to a graph.

use smallvec::SmallVec;
use thalweg_graph::check::check_node;
use thalweg_graph::{Attrs, Fact, GraphData, Node, OpDef, OutputId};

/// A node of an op, with inferred outputs, on the device of another one, with its origin. It waits for nothing but its inputs.
pub(crate) fn checked_node(
    graph: &GraphData,
    op: &'static OpDef,
    name: String,
    inputs: &[OutputId],
    attrs: Attrs,
    like: &Node,
) -> Option<Node> {
    let facts = inputs.iter().map(|i| graph.fact(*i).cloned());
    let facts: SmallVec<[Fact; 4]> = facts.collect::<Option<_>>()?;
    let (attrs, outputs) = check_node(op, &facts, attrs).ok()?;
    Some(Node {
        name,
        op,
        inputs: inputs.into(),
        controls: SmallVec::new(),
        attrs,
        device: like.device.clone(),
        colocation: SmallVec::new(),
        outputs,
        origin: like.origin.clone(),
    })
}
