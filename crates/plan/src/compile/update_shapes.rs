//! Shapes of gradients that only the step knows: an update of a variable takes a gradient of the variable's shape.

use thalweg_graph::op::Effect;
use thalweg_graph::simplify::Simplified;
use thalweg_graph::{Attr, Attrs, Fact, GraphData, Node, NodeId, OutputId, Rebuilt};

use crate::checked_node::checked_node;
use crate::request::PlanContext;

/// The inputs of updates that have the variable's shape.
const LIKE_VARIABLE: [&str; 3] = ["grad", "delta", "value"];

/// Puts an `EnsureShape` on the host in front of each update on a GPU whose gradient has a shape that is known only when
/// it runs: it may come from a loop on the host.
pub(super) fn with_update_shapes(
    simplified: Simplified,
    host: u32,
    context: PlanContext<'_>,
) -> Simplified {
    let graph = &simplified.graph;
    let is_late = |id: NodeId| {
        let device = simplified.devices[id.index()] as usize;
        context.devices[device].gpu().is_some() && late_input(graph, graph.node(id)).is_some()
    };
    if !graph.ids().any(is_late) {
        return simplified;
    }
    let mut rebuilt = Rebuilt::of(&simplified);
    for (id, node) in graph.nodes() {
        let mut node = rebuilt.copied(node);
        if is_late(id)
            && let Some((at, fact)) = late_input(&rebuilt.graph, &node)
            && let Some(ensured) = ensured(&rebuilt.graph, &node, (at, fact), context)
        {
            node.inputs[at] = OutputId {
                node: rebuilt.push(host, ensured),
                index: 0,
            };
        }
        let here = rebuilt.push(simplified.devices[id.index()], node);
        rebuilt.replace_next(here);
    }
    rebuilt.finish(&simplified)
}

/// Returns the gradient of an update whose shape is not known though the variable's is, by number, and its fact.
fn late_input(graph: &GraphData, node: &Node) -> Option<(usize, Fact)> {
    let is_dense = !node.op.inputs.iter().any(|arg| arg.name == "indices");
    if node.op.effect != Effect::Write || !is_dense {
        return None;
    }
    let (_, shape) = graph.fact(*node.inputs.first()?)?.variable.clone()?;
    let named = |i: &usize| {
        let arg = node.input_arg(*i);
        arg.is_some_and(|arg| LIKE_VARIABLE.contains(&arg.name))
    };
    let at = (0..node.inputs.len()).find(named)?;
    let fact = graph.fact(node.inputs[at])?;
    let late = shape.is_known() && !fact.shape.is_known();
    late.then(|| (at, Fact::new(fact.dtype, shape)))
}

fn ensured(
    graph: &GraphData,
    node: &Node,
    (at, fact): (usize, Fact),
    context: PlanContext<'_>,
) -> Option<Node> {
    let op = &context.kernels.get("EnsureShape")?.def;
    let input = node.inputs[at];
    let mut attrs = Attrs::default();
    attrs.set("shape", Attr::Shape(fact.shape));
    checked_node(
        graph,
        op,
        format!("{}/shape", node.name),
        &[input],
        attrs,
        node,
    )
}
