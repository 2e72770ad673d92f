//! Nodes that read a variable, or pass its handle on, changed to take the variable's value.

use crate::attr::Attr;
use crate::check::check_node;
use crate::data::GraphData;
use crate::error::{GraphError, Reason};
use crate::flow::ops::{ENTER, SWITCH};
use crate::node::{Attrs, Fact, Node, NodeId};
use crate::op::{FindOp, OpDef};
use thalweg_tensor::DType;

/// The op that takes a variable's value in place of an op that takes its handle.
pub(super) fn value_op(reader: &Node) -> Option<&'static str> {
    match reader.op.name {
        "ReadVariableOp" => Some("Identity"),
        "ResourceGather" if reader.attrs.int("batch_dims") == 0 => Some("Gather"),
        "ResourceGatherNd" => Some("GatherNd"),
        "VariableShape" => Some("Shape"),
        _ => None,
    }
}

/// `true` for an op that passes a handle on.
pub(super) fn passes(node: &Node) -> bool {
    [ENTER, SWITCH, "Identity"].contains(&node.op.name)
}

/// The node with the value of a variable as its first input, in place of the handle.
///
/// # Errors
/// The registry lacks the op.
pub(super) fn on_value(
    graph: &GraphData,
    id: NodeId,
    find: FindOp<'_>,
) -> Result<Node, GraphError> {
    let mut node = Node::clone(graph.node(id));
    let facts: Vec<Fact> = node
        .inputs
        .iter()
        .filter_map(|i| graph.fact(*i).cloned())
        .collect();
    let name = value_op(&node).unwrap_or(node.op.name);
    node.op = find_op(&node, name, find)?;
    let mut attrs = Attrs::default();
    for attr in node.op.attrs {
        match node.attrs.get(attr.name) {
            // The dtype of the handle gives way to that of the value.
            None | Some(Attr::Type(DType::Resource)) => {}
            Some(value) => attrs.set(attr.name, value.clone()),
        }
    }
    let (attrs, outputs) =
        check_node(node.op, &facts, attrs).map_err(|reason| GraphError::of(&node, reason))?;
    (node.attrs, node.outputs) = (attrs, outputs);
    Ok(node)
}

/// The op of a name, for a node.
pub(super) fn find_op(
    node: &Node,
    name: &str,
    find: FindOp<'_>,
) -> Result<&'static OpDef, GraphError> {
    find(name).ok_or_else(|| GraphError::of(node, Reason::UnknownOp { nearest: None }))
}
