//! The graph that computes a request, and the order of its nodes.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use thalweg_device::{Argument, Bounds, evaluate_within};
use thalweg_graph::simplify::{DEFAULT_FOLD_TIME, Simplified, SimplifyOptions, simplify};
use thalweg_graph::{GraphData, Node, NodeId};
use thalweg_tensor::{Memory, Tensor};

use crate::error::SessionError;
use crate::order::{Accesses, sequence};
use crate::request::{Fetch, PlanContext, Request};

/// Maximum bytes of the folded constants of one plan, and of the values that fold them.
const MAX_FOLDED_BYTES: usize = 64 << 20;
/// Maximum estimated nanoseconds of a node to be folded.
const MAX_FOLD_COST: u64 = 50_000_000;
/// Maximum outputs of a node to be folded: each is a constant of the graph then.
const MAX_FOLDED_OUTPUTS: usize = 1024;

/// Returns the graph that computes the request: pruned, cut at its feeds, with constants folded.
///
/// # Errors
/// A node whose inputs do not fit each other.
pub fn simplified(
    data: &GraphData,
    request: &Request<'_>,
    context: PlanContext<'_>,
) -> Result<Simplified, SessionError> {
    let mut values = Vec::new();
    let mut targets = Vec::new();
    for fetch in request.fetches {
        match *fetch {
            Fetch::Value(output) => values.push(output),
            Fetch::Run(node) => targets.push(node),
        }
    }

    let host = context.devices[0].host();
    let memory = Arc::new(Memory::within(host.memory(), MAX_FOLDED_BYTES));
    let bounds = Bounds {
        memory: &memory,
        cost: MAX_FOLD_COST,
    };
    let fold = |node: &Node, inputs: &[&Tensor]| {
        if node.outputs.len() > MAX_FOLDED_OUTPUTS {
            return None;
        }
        let arguments: SmallVec<[Argument<'_>; 4]> =
            inputs.iter().map(|t| Argument::Value(t)).collect();
        let op = context.kernels.get(node.op.name)?;
        evaluate_within(bounds, host, op, node, &arguments).ok()
    };
    let options = SimplifyOptions {
        evaluate: context.optimise.then_some(&fold),
        fold_time: DEFAULT_FOLD_TIME,
        share: context.optimise,
        devices: Some(request.devices),
        ops: Some(&|name| context.kernels.get(name).map(|op| &op.def)),
    };
    simplify(data, request.feeds, &values, &targets, &options)
        .map_err(|e| SessionError::from(vec![e]))
}

/// Returns the order of a step, with all nodes.
pub(super) fn complete(
    graph: &GraphData,
    accesses: &Accesses,
) -> Result<Vec<NodeId>, SessionError> {
    let order = sequence(graph, accesses);
    if order.len() < graph.len() {
        let done: FxHashSet<_> = order.iter().collect();
        let stuck = graph.ids().find(|id| !done.contains(id));
        return Err(SessionError::Cycle {
            node: stuck.map_or(String::new(), |id| graph.node(id).name.clone()),
        });
    }
    Ok(order)
}
