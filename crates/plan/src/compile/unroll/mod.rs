//! Unrolls loops with lists of tensors, tensor arrays or stacks, of which a GPU has none.
//!
//! A recurrent layer reads its inputs from a list or an array, and its gradient pops values from lists or stacks. Where
//! the number of iterations is known when a plan is made, each iteration becomes nodes of the graph, and each list becomes
//! the outputs that are its elements. Then nothing is left of the loop that the host would have to run.

mod holder_ops;
mod item;
mod list_groups;
mod list_ops;
mod new_graph;
mod unroller;

use std::time::{Duration, Instant};

use thalweg_graph::op::Calls;
use thalweg_graph::simplify::Simplified;
use thalweg_graph::{Fact, NodeId, OutputId};
use thalweg_tensor::DType;

use super::functions::is_call;
use super::hosted::hosted_nodes;
use super::request_graph::simplified;
use crate::request::{Fetch, PlanContext, Request};
use list_groups::ListGroups;
use new_graph::NewGraph;
use unroller::{Appended, Unroller};

/// Maximum number of times that a group of loops is left out before all are left.
const MAX_ATTEMPTS: usize = 8;
/// Maximum time that iterations are simplified for.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Returns the graph with the loops on GPUs unrolled that pass lists, where that is possible.
///
/// Loops that share lists are unrolled together, or left together.
pub(super) fn unrolled(old: Simplified, context: PlanContext<'_>) -> Simplified {
    let on_gpu = |id: NodeId| {
        let device = &context.devices[old.devices[id.index()] as usize];
        device.gpu().is_some()
    };
    let is_loop = |id: NodeId| {
        let node = old.graph.node(id);
        on_gpu(id) && matches!(node.op.calls, Calls::Loop) && is_call(node, context)
    };
    if !context.optimise || !old.graph.ids().any(is_loop) {
        return old;
    }
    let mut groups = ListGroups::new(&old.graph);
    let calls_loop = |m: &NodeId| matches!(old.graph.node(*m).op.calls, Calls::Loop);
    // A list, which no GPU has, may be on a CPU.
    groups.retain(&old.graph, |members| {
        let mut on_gpus = members.iter().filter(|&&m| on_gpu(m));
        let device = old.devices[on_gpus.next()?.index()];
        let here = |m: &NodeId| old.devices[m.index()] == device;
        let mut loops = members.iter().filter(|m| calls_loop(m)).peekable();
        let unrolls = loops.peek().is_some() && loops.all(|&m| here(&m) && is_loop(m));
        (unrolls && on_gpus.all(here)).then_some(device)
    });
    // A list that is fetched has to be one.
    let is_list = |o: &&OutputId| {
        old.graph
            .fact(**o)
            .is_some_and(|f| f.dtype == DType::Variant)
    };
    for output in old.fetches.iter().filter(is_list) {
        groups.remove(output.node);
    }
    let end = Instant::now() + MAX_TIME;
    // Each attempt leaves out a group, or is the last.
    for _ in 0..MAX_ATTEMPTS {
        if groups.is_empty() {
            break;
        }
        let mut unroller = Unroller::new(NewGraph::like(&old.graph, context), end);
        match unroller.append(&old, None, &|id| groups.device(id)) {
            Ok(appended) => {
                let new = finished(&old, &unroller.new, &appended);
                // A node of an iteration that the host has to run would cross in each of them.
                let on_host = |s: &Simplified| hosted_nodes(s, context);
                return match new {
                    Some(new) if on_host(&new) <= on_host(&old) => new,
                    _ => old,
                };
            }
            Err(node) if groups.device(node).is_some() => groups.remove(node),
            Err(_) => break,
        }
    }
    old
}

/// Simplifies the new graph: much of what an iteration computes is known, or the same in all of them.
fn finished(old: &Simplified, new: &NewGraph<'_>, appended: &Appended) -> Option<Simplified> {
    let feed = |feed: &NodeId| {
        let output = appended.values[feed.index()].first()?.output()?;
        Some((output, new.graph.fact(output)?.clone()))
    };
    let feeds: Option<Vec<(OutputId, Fact)>> = old.feeds.iter().flatten().map(feed).collect();
    let values = old.fetches.iter();
    let values = values.map(|&o| Some(Fetch::Value(appended.value(o)?.output()?)));
    let runs = old.targets.iter().flat_map(|t| &appended.done[t.index()]);
    let fetches = values.chain(runs.map(|&n| Some(Fetch::Run(n))));
    let request = Request {
        feeds: &feeds?,
        fetches: &fetches.collect::<Option<Vec<Fetch>>>()?,
        devices: &new.devices,
        variables: &[],
    };
    let mut simple = simplified(&new.graph, &request, new.context).ok()?;
    let mut fed = std::mem::take(&mut simple.feeds).into_iter();
    let feeds = old.feeds.iter();
    simple.feeds = feeds
        .map(|f| f.and_then(|_| fed.next().flatten()))
        .collect();
    Some(simple)
}
