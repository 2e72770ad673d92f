//! Fusion of a sum of two gradients into the gradient of a Relu behind it.

use thalweg_graph::{Node, NodeId};
use thalweg_ops::fused::{MEMBERS, RELU_GRAD_SUM};

use super::replacement::Replacement;
use super::rewriter::Rewriter;

/// The gradient of a Relu whose result two nodes use: the sum of theirs is for it alone. Only GPUs have a kernel for it; on
/// CPUs both are in a chain.
pub(super) fn of_sum(graph: &Rewriter<'_>, id: NodeId) -> Option<Replacement> {
    let node = graph.is(id, &["ReluGrad"])?;
    let sum = graph.only_for(id, 0, &["AddN", "AddV2", "Add"])?;
    let ([a, b], [_, features]) = (&graph.node(sum)?.inputs[..], &node.inputs[..]) else {
        return None;
    };
    let dims = graph.dims(*a)?;
    let same = [b, features].map(|o| graph.dims(*o).as_ref() == Some(&dims));
    (same == [true, true] && graph.is_free(id)).then_some(())?;
    let mut attrs = node.attrs.clone();
    attrs.set(MEMBERS, graph.names([sum, id].into_iter()));
    let fused = Node {
        op: &RELU_GRAD_SUM.def,
        inputs: [*a, *b, *features].into_iter().collect(),
        attrs,
        ..(**node).clone()
    };
    Some(Replacement::one(id, fused, [sum]))
}
