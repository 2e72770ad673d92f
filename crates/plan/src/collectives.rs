//! Collectives of a step: all ranks run them one after the other, in one order.
//!
//! The order of a plan follows from its graph alone, so ranks that run the same graph have the same. A node waits for the
//! collective before it, so threads cannot change that order, and neither can devices. Ranks that negotiate have no order.

use rustc_hash::FxHashSet;
use thalweg_device::{Device, KernelError, PlannedCollective};
use thalweg_graph::function::calls;
use thalweg_graph::op::Effect;
use thalweg_graph::{GraphData, Node, NodeId};
use thalweg_ops::{gpu_collective, planned_collective};

use crate::error::{SessionError, failed};
use crate::request::PlanContext;

/// Returns the reason that a collective on a GPU runs on its host, if it does; `None` for other nodes.
pub(crate) fn on_host(node: &Node, device: &Device, context: PlanContext<'_>) -> Option<String> {
    let gpu = device.gpu()?;
    // Without ranks the collective's kernel returns the error.
    let ranks = context.collectives?;
    if node.op.effect != Effect::Collective {
        return None;
    }
    if ranks.for_gpus().is_none() {
        return Some("what carries values between these ranks has nothing for GPUs".to_owned());
    }
    let carried = gpu.driver().communicators().map_err(|e| e.to_string());
    carried.and_then(|_| gpu_collective(node)).err()
}

/// Lets each collective of a graph wait for the one before it in `order`, unless ranks negotiate; returns the list that
/// ranks compare.
///
/// # Errors
/// A collective in a function: it runs when its call does, at no place of its own in the order.
pub(crate) fn order_collectives(
    graph: &mut GraphData,
    (order, devices): (&[NodeId], &[u32]),
    context: PlanContext<'_>,
) -> Result<Vec<PlannedCollective>, SessionError> {
    let ranks = context.collectives.and_then(|c| c.ranks(0).ok());
    let ranks = ranks.map(|of| of.size);
    let ordered = !context.collectives.is_some_and(|c| c.negotiates());
    let mut planned = Vec::new();
    let mut known = FxHashSet::default();
    let mut last: Option<NodeId> = None;
    for &id in order {
        let node = graph.node(id);
        refuse_in_functions(graph, node, &mut known)?;
        let Some(mut collective) = planned_collective(graph, node, ranks) else {
            continue;
        };
        let device = devices
            .get(id.index())
            .map(|&d| &context.devices[d as usize]);
        collective.on_gpus = device.is_some_and(|d| d.gpu().is_some());
        planned.push(collective);
        if let (Some(last), true) = (last.replace(id), ordered) {
            graph.wait_for(id, last);
        }
    }
    Ok(planned)
}

/// # Errors
/// A function that this node calls, or one that is called there, has a collective.
fn refuse_in_functions<'a>(
    graph: &'a GraphData,
    node: &'a Node,
    known: &mut FxHashSet<String>,
) -> Result<(), SessionError> {
    let mut stack = calls(node.attrs.iter().map(|(_, a)| a));
    while let Some(name) = stack.pop() {
        let Some(function) = graph.function(name) else {
            continue;
        };
        if !known.insert(name.to_owned()) {
            continue;
        }
        for (_, inner) in function.body.nodes() {
            if inner.op.effect == Effect::Collective {
                return Err(failed(
                    inner,
                    KernelError::Invalid(inside(name, &node.name)),
                ));
            }
            stack.extend(calls(inner.attrs.iter().map(|(_, a)| a)));
        }
    }
    Ok(())
}

fn inside(function: &str, caller: &str) -> String {
    format!(
        "it is in function '{function}', which '{caller}' calls: ranks would not run it in one order; build it outside of \
         functions, branches and loops"
    )
}
