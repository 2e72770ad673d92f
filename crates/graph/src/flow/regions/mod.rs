//! Regions of control flow: the nodes of a branch or loop, collapsed into one node that calls a
//! function.

mod branches;
mod calls;
mod copied;
mod extractor;
mod hoisted_reads;
mod loops;
mod op;
mod part_order;
mod parts;
mod structured;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::unionfind::UnionFind;
use rustc_hash::{FxHashMap, FxHashSet};

use super::call_values::read_in_front_of_calls;
use super::contexts::Contexts;
use super::split_calls::{Nesting, split_calls};
use crate::data::GraphData;
use crate::error::GraphError;
use crate::node::{Node, NodeId};
use crate::op::FindOp;
use crate::simplified::Simplified;
pub use calls::is_extracted;
use copied::CallOps;
use extractor::RegionExtractor;
use hoisted_reads::{RegionNodes, hoist_reads};
pub use op::REGION;
use structured::{Form, Part, structured};

/// Collapses each region into one node. A region is a loop or the branches of a value, which become a `While` or an `If`
/// where they have the form that TensorFlow's `while_loop` and `cond` build. Other nodes that may run never or many times
/// form connected regions, with all nodes on paths that leave a region and come back; each becomes a function that is
/// interpreted. With `find`, which finds an op by its name, regions and calls of functions take the
/// values of variables on other devices that they only read, and conditionals and calls that use other resources of several
/// devices become one call for each device.
///
/// # Errors
/// A loop that uses other resources of several devices: it runs on one.
pub fn collapse(
    simplified: Simplified,
    find: Option<FindOp<'_>>,
) -> Result<Simplified, GraphError> {
    let nesting = Nesting::outermost(&simplified);
    collapse_nested(simplified, find, &nesting)
}

/// As [`collapse`], for the body of a function that is in others.
fn collapse_nested(
    simplified: Simplified,
    find: Option<FindOp<'_>>,
    nesting: &Nesting,
) -> Result<Simplified, GraphError> {
    let collapsed = collapse_regions(simplified, find, &nesting.prefix)?;
    match find {
        Some(find) => split_calls(collapsed, find, nesting, collapse_nested),
        None => Ok(collapsed),
    }
}

fn collapse_regions(
    mut simplified: Simplified,
    find: Option<FindOp<'_>>,
    prefix: &str,
) -> Result<Simplified, GraphError> {
    let hoisted = match find {
        Some(find) => read_in_front_of_calls(&mut simplified, find)?,
        None => false,
    };
    let graph = &simplified.graph;
    let all: Vec<NodeId> = graph.ids().collect();
    let contexts = Contexts::new(graph, &all);
    let flows: Vec<bool> = graph
        .nodes()
        .map(|(id, n)| contexts.in_control_flow(n, id))
        .collect();
    if !flows.contains(&true) && !hoisted {
        return Ok(simplified);
    }
    let ops = find.and_then(CallOps::new);
    let parts = match ops {
        Some(_) => structured(&simplified, &contexts),
        None => Vec::new(),
    };
    let mut group = groups(graph, &flows, &parts);
    let mut members: FxHashMap<usize, Vec<NodeId>> = FxHashMap::default();
    for id in graph.ids() {
        members.entry(group[id.index()]).or_default().push(id);
    }
    let is_flow = |n: &NodeId| flows.get(n.index()) == Some(&true);
    if let Some(find) = find {
        let regions = members
            .iter()
            .filter(|(_, nodes)| nodes.iter().any(is_flow));
        let mut regions: Vec<RegionNodes> = regions.map(|(&g, nodes)| (g, nodes.clone())).collect();
        regions.sort_unstable();
        hoist_reads(&mut simplified, &group, &regions, find)?;
        // Each added node stands alone.
        for id in simplified.graph.ids().skip(group.len()) {
            group.push(id.index());
            members.insert(id.index(), vec![id]);
        }
    }
    let graph = &simplified.graph;
    let is_region = |g: usize| members[&g].iter().any(is_flow);
    let whole = whole_parts(&parts, &group, &members);
    let mut extractor = RegionExtractor {
        fetched: simplified.fetches.iter().copied().collect(),
        group: &group,
        simplified: &simplified,
        out: graph.empty(),
        devices: Vec::new(),
        nodes: vec![NodeId::INVALID; graph.len()],
        values: FxHashMap::default(),
        regions: 0,
        prefix,
    };
    for g in order(graph, &group, &members) {
        if let (Some(part), Some(ops)) = (whole.get(&g), ops)
            && extractor.call(part, ops)?
        {
            continue;
        }
        match is_region(g) {
            true => extractor.region(g, &members[&g])?,
            false => extractor.node(members[&g][0]),
        }
    }
    Ok(extractor.finish())
}

/// The parts that become calls, by group. A part that a group has to share with other nodes is interpreted with them.
fn whole_parts<'a>(
    parts: &'a [Part],
    group: &[usize],
    members: &FxHashMap<usize, Vec<NodeId>>,
) -> FxHashMap<usize, &'a Part> {
    let whole = parts.iter().filter_map(|part| {
        let group = group[part.members.first()?.index()];
        let structured = !matches!(part.form, Form::Unstructured);
        (structured && members[&group] == part.members).then_some((group, part))
    });
    whole.collect()
}

/// The numbers of the nodes that a node uses or waits for.
fn sources(node: &Node) -> impl Iterator<Item = usize> + '_ {
    let inputs = node.inputs.iter().map(|i| i.node.index());
    inputs.chain(node.controls.iter().map(|c| c.index()))
}

/// The number of each node's group. The graph of groups has no cycle.
fn groups(graph: &GraphData, flows: &[bool], parts: &[Part]) -> Vec<usize> {
    let mut together = UnionFind::<usize>::new(graph.len());
    let mut structured = vec![false; graph.len()];
    for part in parts
        .iter()
        .filter(|p| !matches!(p.form, Form::Unstructured))
    {
        for member in &part.members {
            structured[member.index()] = true;
            together.union(part.members[0].index(), member.index());
        }
    }
    let interpreted = |node: usize| flows[node] && !structured[node];
    for (id, node) in graph.nodes() {
        for source in sources(node).filter(|&s| s < flows.len()) {
            if interpreted(id.index()) && interpreted(source) {
                together.union(id.index(), source);
            }
        }
    }
    let mut between: DiGraph<(), ()> = DiGraph::new();
    (0..graph.len()).for_each(|_| {
        between.add_node(());
    });
    for (id, node) in graph.nodes() {
        let to = together.find(id.index());
        for source in sources(node).filter(|&s| s < flows.len()) {
            let from = together.find(source);
            if from != to {
                between.update_edge(NodeIndex::new(from), NodeIndex::new(to), ());
            }
        }
    }
    for circle in kosaraju_scc(&between) {
        for pair in circle.windows(2) {
            together.union(pair[0].index(), pair[1].index());
        }
    }
    (0..graph.len()).map(|n| together.find(n)).collect()
}

/// The groups in topological order, ties by their first node.
fn order(
    graph: &GraphData,
    group: &[usize],
    members: &FxHashMap<usize, Vec<NodeId>>,
) -> Vec<usize> {
    let mut after: FxHashMap<usize, FxHashSet<usize>> = FxHashMap::default();
    let mut waiting: FxHashMap<usize, usize> = members.keys().map(|&g| (g, 0)).collect();
    for (id, node) in graph.nodes() {
        let to = group[id.index()];
        for source in sources(node).filter(|&s| s < group.len()) {
            let from = group[source];
            if from != to && after.entry(from).or_default().insert(to) {
                *waiting.entry(to).or_default() += 1;
            }
        }
    }
    let first = |g: usize| Reverse((members[&g][0], g));
    let ready = waiting.iter().filter(|(_, w)| **w == 0);
    let mut ready: BinaryHeap<_> = ready.map(|(g, _)| first(*g)).collect();
    let mut order = Vec::with_capacity(members.len());
    while let Some(Reverse((_, g))) = ready.pop() {
        order.push(g);
        for &next in after.get(&g).into_iter().flatten() {
            let left = waiting.entry(next).or_default();
            *left -= 1;
            if *left == 0 {
                ready.push(first(next));
            }
        }
    }
    order
}
