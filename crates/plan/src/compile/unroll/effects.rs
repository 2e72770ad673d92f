//! Effects of nodes, and of the functions that they call.

use thalweg_graph::function::calls;
use thalweg_graph::op::Effect;
use thalweg_graph::{GraphData, Node};

/// Maximum depth of functions in each other; deeper ones count as such with effects.
const MAX_DEPTH: usize = 8;

/// `true` if a node does more than compute its outputs, so that the order of iterations matters beside their values.
pub(super) fn has_effects(graph: &GraphData, node: &Node) -> bool {
    nested(graph, node, 0)
}

fn nested(graph: &GraphData, node: &Node, depth: usize) -> bool {
    let mut called = calls(node.attrs.iter().map(|(_, a)| a))
        .into_iter()
        .peekable();
    if called.peek().is_none() {
        return !matches!(
            node.op.effect,
            Effect::Pure
                | Effect::Random
                | Effect::Handle
                | Effect::Read
                | Effect::Feed
                | Effect::Control
        );
    }
    depth == MAX_DEPTH
        || called.any(|name| {
            let function = graph.function(name);
            function.is_none_or(|f| f.body.nodes().any(|(_, n)| nested(graph, n, depth + 1)))
        })
}
