//! Shapes of the values of loops, where the graph does not say them.
//!
//! TensorFlow 1's loops declare none. If an iteration gives values of the shapes that it takes, all iterations do.

use smallvec::SmallVec;
use thalweg_graph::check::infer;
use thalweg_graph::op::Calls;
use thalweg_graph::simplify::{Simplified, known};
use thalweg_graph::{Fact, GraphData, Node, NodeId};

use super::functions::{Caller, is_call};
use crate::request::PlanContext;

/// Maximum number of times that a body is simplified, each time with fewer shapes.
const MAX_ATTEMPTS: usize = 4;

/// Returns the graph with the shapes of the values of its loops on GPUs, as far as iterations keep them. The numbers of the
/// nodes stay.
pub(super) fn with_loop_shapes(old: Simplified, context: PlanContext<'_>) -> Simplified {
    let is_open = |id: NodeId| {
        let node = old.graph.node(id);
        let device = &context.devices[old.devices[id.index()] as usize];
        matches!(node.op.calls, Calls::Loop)
            && device.gpu().is_some()
            && is_call(node, context)
            && node.outputs.iter().any(is_late)
    };
    if !old.graph.ids().any(is_open) {
        return old;
    }
    let mut graph = old.graph.empty();
    let mut changed = vec![false; old.graph.len()];
    for (id, node) in old.graph.nodes() {
        let mut outputs = None;
        if node.inputs.iter().any(|i| changed[i.node.index()]) && !known(node) {
            outputs = inferred(&graph, node);
        }
        if is_open(id) {
            let caller = Caller {
                graph: &old.graph,
                id,
                device: old.devices[id.index()],
                context,
            };
            let facts = node.inputs.iter().map(|&i| graph.fact(i).cloned());
            outputs = kept(&caller, &facts.collect::<Vec<_>>()).or(outputs);
        }
        changed[id.index()] = outputs.is_some();
        match outputs {
            None => graph.push(node.clone()),
            Some(outputs) => graph.push(Node {
                outputs,
                ..Node::clone(node)
            }),
        };
    }
    Simplified { graph, ..old }
}

fn is_late(fact: &Fact) -> bool {
    !fact.dtype.is_handle() && !fact.shape.is_known()
}

/// Returns the outputs of a node for its inputs in this graph.
fn inferred(graph: &GraphData, node: &Node) -> Option<SmallVec<[Fact; 1]>> {
    let facts: Option<Vec<Fact>> = node
        .inputs
        .iter()
        .map(|&i| graph.fact(i).cloned())
        .collect();
    let new = infer(node.op, &facts?, &node.attrs).ok()?;
    let shaped = |(old, new): (&Fact, Fact)| Fact {
        shape: old.shape.merge(&new.shape).unwrap_or(old.shape.clone()),
        ..old.clone()
    };
    Some(node.outputs.iter().zip(new).map(shaped).collect())
}

/// Returns the outputs of a loop with the shapes of these inputs where an iteration keeps them.
fn kept(caller: &Caller<'_>, inputs: &[Option<Fact>]) -> Option<SmallVec<[Fact; 1]>> {
    let node = caller.node();
    let body = caller.function("body").ok()?;
    let changed = caller.changed().ok()?;
    let is_kept = |i: &usize| {
        let input = inputs[*i].as_ref();
        is_late(&node.outputs[*i]) && input.is_some_and(|f| f.shape.is_known())
    };
    let mut open: Vec<usize> = (0..node.outputs.len()).filter(is_kept).collect();
    for _ in 0..MAX_ATTEMPTS {
        // A value that may change its shape has the shape that the graph says.
        let mut facts = inputs.to_vec();
        for &i in changed.iter() {
            let fact = match open.contains(&i) {
                true => inputs[i].clone(),
                false => Some(node.outputs[i].clone()),
            };
            facts[i] = fact.map(Fact::without_value);
        }
        let turn = caller.simplified_for(body, &facts, (&changed, node.outputs.len()));
        let turn = turn.ok()?;
        let keeps = |i: &usize| {
            let Some(at) = changed.iter().position(|c| c == i) else {
                return true;
            };
            let result = turn.fetches.get(at).and_then(|&o| turn.graph.fact(o));
            result.is_some_and(|f| Some(&f.shape) == inputs[*i].as_ref().map(|f| &f.shape))
        };
        let before = open.len();
        open.retain(keeps);
        if open.is_empty() {
            return None;
        }
        if open.len() == before {
            let mut outputs = node.outputs.clone();
            for i in open {
                outputs[i].shape = inputs[i].as_ref()?.shape.clone();
            }
            return Some(outputs);
        }
    }
    None
}
