//! What runs never or often, taken out of a graph: one node stands for each region of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::unionfind::UnionFind;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Contexts;
use crate::attr::{Attr, AttrKind, Func};
use crate::data::GraphData;
use crate::function::{ARGUMENT, ARGUMENTS, Function, Port, RESULTS};
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::op::{Effect, Gradient, OpDef, attr, list_attr};
use crate::simplify::Simplified;

/// The op that stands for a region.
pub static REGION: OpDef = OpDef {
    name: "_Region",
    summary: "What runs never or often: a graph with Switch, Merge and loops, interpreted.",
    inputs: &[ARGUMENTS],
    outputs: &[RESULTS],
    attrs: &[
        list_attr("Tin", AttrKind::Types),
        list_attr("Tout", AttrKind::Types),
        attr("f", AttrKind::Func),
    ],
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Puts one node in the place of each region: of the nodes that hang together and run never or
/// often, with whatever lies on a way out of the region and back into it. The region itself is a
/// function of the library.
pub fn collapse(simplified: Simplified) -> Simplified {
    let graph = &simplified.graph;
    let all: Vec<NodeId> = graph.ids().collect();
    let contexts = Contexts::new(graph, &all);
    let flows: Vec<bool> = graph.nodes().map(|(id, n)| contexts.flows(n, id)).collect();
    if !flows.contains(&true) {
        return simplified;
    }
    let group = groups(graph, &flows);
    let mut members: FxHashMap<usize, Vec<NodeId>> = FxHashMap::default();
    for id in graph.ids() {
        members.entry(group[id.index()]).or_default().push(id);
    }
    let is_region = |g: usize| members[&g].iter().any(|n| flows[n.index()]);
    let mut cut = Cut {
        fetched: simplified.fetches.iter().copied().collect(),
        group: &group,
        simplified: &simplified,
        out: graph.empty(),
        devices: Vec::new(),
        nodes: vec![NodeId::INVALID; graph.len()],
        values: FxHashMap::default(),
        regions: 0,
    };
    for g in order(graph, &group, &members) {
        match is_region(g) {
            true => cut.region(g, &members[&g]),
            false => cut.node(members[&g][0]),
        }
    }
    let node = |n: &NodeId| cut.nodes[n.index()];
    Simplified {
        feeds: simplified
            .feeds
            .iter()
            .map(|f| f.as_ref().map(node))
            .collect(),
        fetches: simplified.fetches.iter().map(|f| cut.value(*f)).collect(),
        targets: simplified.targets.iter().map(node).collect(),
        graph: cut.out,
        devices: cut.devices,
    }
}

/// What a node uses and waits for, by number.
fn sources(node: &Node) -> impl Iterator<Item = usize> + '_ {
    let inputs = node.inputs.iter().map(|i| i.node.index());
    inputs.chain(node.controls.iter().map(|c| c.index()))
}

/// By node: the number of its group. Groups do not wait for each other in a circle.
fn groups(graph: &GraphData, flows: &[bool]) -> Vec<usize> {
    let mut together = UnionFind::<usize>::new(graph.len());
    for (id, node) in graph.nodes() {
        for source in sources(node).filter(|&s| s < flows.len()) {
            if flows[id.index()] && flows[source] {
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

/// The groups, each after those that it waits for, otherwise by their first node.
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

struct Cut<'a> {
    simplified: &'a Simplified,
    group: &'a [usize],
    fetched: FxHashSet<OutputId>,
    out: GraphData,
    devices: Vec<u32>,
    /// By node of the old graph: the node of the new one that has run when it has.
    nodes: Vec<NodeId>,
    /// Where outputs of regions are.
    values: FxHashMap<OutputId, OutputId>,
    regions: usize,
}

impl Cut<'_> {
    fn value(&self, old: OutputId) -> OutputId {
        let same = OutputId {
            node: self.nodes[old.node.index()],
            ..old
        };
        self.values.get(&old).copied().unwrap_or(same)
    }

    fn push(&mut self, old: NodeId, node: Node) -> NodeId {
        self.devices.push(self.simplified.devices[old.index()]);
        self.out.push(node)
    }

    /// What runs once.
    fn node(&mut self, id: NodeId) {
        let mut node = Node::clone(self.simplified.graph.node(id));
        for input in &mut node.inputs {
            *input = self.value(*input);
        }
        node.controls = distinct(node.controls.iter().map(|c| self.nodes[c.index()]));
        self.nodes[id.index()] = self.push(id, node);
    }

    /// A region, and the node that stands for it.
    fn region(&mut self, group: usize, members: &[NodeId]) {
        let graph = &self.simplified.graph;
        let inside = |n: NodeId| self.group.get(n.index()) == Some(&group);
        let mut body = GraphData::new();
        let (mut arguments, mut inputs, mut from) = (Vec::new(), Vec::new(), SmallVec::new());
        let mut here: FxHashMap<OutputId, OutputId> = FxHashMap::default();
        // What comes in first, so that numbers ascend.
        for input in members
            .iter()
            .flat_map(|&m| graph.node(m).inputs.iter().copied())
        {
            if inside(input.node) || here.contains_key(&input) {
                continue;
            }
            let Some(fact) = graph.fact(input) else {
                continue;
            };
            let mut attrs = Attrs::default();
            attrs.set("T", Attr::Type(fact.dtype));
            attrs.set("index", Attr::Int(inputs.len() as i64));
            let source = graph.node(input.node);
            let node = body.push(Node {
                name: source.name.clone(),
                op: &ARGUMENT,
                inputs: SmallVec::new(),
                controls: SmallVec::new(),
                attrs,
                device: Default::default(),
                colocation: SmallVec::new(),
                outputs: SmallVec::from_elem(fact.clone(), 1),
                origin: source.origin.clone(),
            });
            here.insert(input, OutputId { node, index: 0 });
            arguments.push(Port {
                name: source.name.clone(),
                dtype: fact.dtype,
            });
            inputs.push(node);
            from.push(self.value(input));
        }
        let mut waits = Vec::new();
        let mut moved: FxHashMap<NodeId, NodeId> = FxHashMap::default();
        let mut open = Vec::new();
        for &member in members {
            let mut node = Node::clone(graph.node(member));
            for (i, input) in node.inputs.iter_mut().enumerate() {
                if let Some(&argument) = here.get(input) {
                    *input = argument;
                } else if let Some(&node) = moved.get(&input.node) {
                    input.node = node;
                } else {
                    open.push((member, i, *input));
                    input.node = NodeId::INVALID;
                }
            }
            let (own, outside): (Vec<NodeId>, Vec<NodeId>) =
                node.controls.iter().partition(|c| inside(**c));
            node.controls = distinct(own.iter().filter_map(|c| moved.get(c).copied()));
            waits.extend(outside.iter().map(|c| self.nodes[c.index()]));
            moved.insert(member, body.push(node));
        }
        for (node, input, from) in open {
            if let (Some(&node), Some(&from_node)) = (moved.get(&node), moved.get(&from.node)) {
                let from = OutputId {
                    node: from_node,
                    ..from
                };
                body.close(node, input, from);
            }
        }
        let leaving = self.leaving(group, members);
        let first = graph.node(members[0]);
        let facts = leaving.iter().filter_map(|o| graph.fact(*o));
        let facts: SmallVec<[Fact; 1]> = facts
            .map(|f| Fact {
                value: None,
                ..f.clone()
            })
            .collect();
        let mut attrs = Attrs::default();
        attrs.set(
            "Tin",
            Attr::Types(arguments.iter().map(|a| a.dtype).collect()),
        );
        attrs.set("Tout", Attr::Types(facts.iter().map(|f| f.dtype).collect()));
        // No function of a file has such a name.
        let name = format!("_region:{}", self.regions);
        self.regions += 1;
        attrs.set("f", Attr::Func(Func::named(&name)));
        let results = leaving.iter().zip(&facts).map(|(o, f)| Port {
            name: graph.output_name(*o),
            dtype: f.dtype,
        });
        let function = Function {
            name: name.clone(),
            arguments,
            results: results.collect(),
            body,
            inputs,
            outputs: leaving
                .iter()
                .map(|o| OutputId {
                    node: moved[&o.node],
                    ..*o
                })
                .collect(),
            controls: Vec::new(),
            attrs: Vec::new(),
            origin: first.origin.clone(),
        };
        Arc::make_mut(&mut self.out.functions).insert(name, Arc::new(function));
        let node = Node {
            name: first.name.clone(),
            op: &REGION,
            inputs: from,
            controls: distinct(waits.into_iter()),
            attrs,
            device: first.device.clone(),
            colocation: SmallVec::new(),
            outputs: facts,
            origin: first.origin.clone(),
        };
        let id = self.push(members[0], node);
        for &member in members {
            self.nodes[member.index()] = id;
        }
        for (index, output) in leaving.into_iter().enumerate() {
            let index = index as u32;
            self.values.insert(output, OutputId { node: id, index });
        }
    }

    /// The outputs of a group that others use or that are fetched.
    fn leaving(&self, group: usize, members: &[NodeId]) -> Vec<OutputId> {
        let graph = &self.simplified.graph;
        let mut leaving = Vec::new();
        for &member in members {
            let mut used: FxHashSet<u32> = FxHashSet::default();
            for user in graph.consumers(member) {
                if self.group[user.index()] != group {
                    let inputs = graph.node(user).inputs.iter();
                    used.extend(inputs.filter(|i| i.node == member).map(|i| i.index));
                }
            }
            for index in 0..graph.node(member).outputs.len() as u32 {
                let node = member;
                let output = OutputId { node, index };
                if used.contains(&index) || self.fetched.contains(&output) {
                    leaving.push(output);
                }
            }
        }
        leaving
    }
}

fn distinct(nodes: impl Iterator<Item = NodeId>) -> SmallVec<[NodeId; 2]> {
    let mut nodes: SmallVec<[NodeId; 2]> = nodes.collect();
    nodes.sort();
    nodes.dedup();
    nodes
}
