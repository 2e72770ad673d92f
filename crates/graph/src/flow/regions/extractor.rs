//! Extraction of regions: each becomes a function, and a node that calls it.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use thalweg_tensor::DType;

use super::op::REGION;
use crate::attr::{Attr, Func};
use crate::data::GraphData;
use crate::error::{GraphError, Reason};
use crate::flow::region_body::{RegionBody, distinct};
use crate::function::{Function, Port};
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::simplified::Simplified;

/// A graph whose regions are being extracted.
pub(super) struct RegionExtractor<'a> {
    pub simplified: &'a Simplified,
    pub group: &'a [usize],
    pub fetched: FxHashSet<OutputId>,
    pub out: GraphData,
    pub devices: Vec<u32>,
    /// By node of the old graph: the node of the new one that has run when it has.
    pub nodes: Vec<NodeId>,
    /// The new outputs for outputs of regions.
    pub values: FxHashMap<OutputId, OutputId>,
    pub regions: usize,
    /// Stands in the names of functions, before their number.
    pub prefix: &'a str,
}

/// The name of the node that stands for an output in the body of a function.
pub(super) fn output_node_name(graph: &GraphData, output: OutputId) -> String {
    let source = graph.node(output.node);
    match output.index {
        0 => source.name.clone(),
        n => format!("{}_{n}", source.name),
    }
}

impl RegionExtractor<'_> {
    /// The output of the new graph for an output of the old one.
    pub(super) fn value(&self, old: OutputId) -> OutputId {
        let same = OutputId {
            node: self.nodes[old.node.index()],
            ..old
        };
        self.values.get(&old).copied().unwrap_or(same)
    }

    /// Adds a node, on the device of an old one.
    pub(super) fn push(&mut self, old: NodeId, node: Node) -> NodeId {
        self.devices.push(self.simplified.devices[old.index()]);
        self.out.push(node)
    }

    /// The node on whose device a region runs: the source of a resource that it uses, or else its
    /// first node. A handle does not leave its device, so all resources must be on one.
    pub(super) fn device_node(
        &self,
        inputs: &[OutputId],
        first: NodeId,
    ) -> Result<NodeId, GraphError> {
        let is_handle = |o: &&OutputId| {
            let fact = self.simplified.graph.fact(**o);
            fact.is_some_and(|f| f.dtype == DType::Resource)
        };
        let mut handles = inputs.iter().filter(is_handle).map(|o| o.node);
        let Some(one) = handles.next() else {
            return Ok(first);
        };
        let device = |n: NodeId| self.simplified.devices[n.index()];
        match handles.find(|&other| device(other) != device(one)) {
            None => Ok(one),
            Some(other) => Err(self.split_resources_error(first, one, other)),
        }
    }

    fn split_resources_error(&self, first: NodeId, one: NodeId, other: NodeId) -> GraphError {
        let [node, one, other] = [first, one, other].map(|n| self.simplified.graph.node(n));
        GraphError {
            node: node.name.clone(),
            op: node.op.name.to_owned(),
            origin: node.origin.clone(),
            reason: Reason::Argument(format!(
                "a loop of Switch and Merge runs on one device, but this one uses '{}' and '{}', which \
                 are on different devices: put them on one device, or make a loop for each device",
                one.name, other.name
            )),
        }
    }

    /// Copies a node that runs exactly once.
    pub(super) fn node(&mut self, id: NodeId) {
        let mut node = Node::clone(self.simplified.graph.node(id));
        for input in &mut node.inputs {
            *input = self.value(*input);
        }
        node.controls = distinct(node.controls.iter().map(|c| self.nodes[c.index()]));
        self.nodes[id.index()] = self.push(id, node);
    }

    /// The graph with all regions extracted, and the nodes for feeds, fetches and targets.
    pub(super) fn finish(self) -> Simplified {
        let node = |n: &NodeId| self.nodes[n.index()];
        let old = self.simplified;
        Simplified {
            feeds: old.feeds.iter().map(|f| f.as_ref().map(node)).collect(),
            fetches: old.fetches.iter().map(|f| self.value(*f)).collect(),
            targets: old.targets.iter().map(node).collect(),
            graph: self.out,
            devices: self.devices,
        }
    }

    /// Extracts a region and adds the node that stands for it.
    pub(super) fn region(&mut self, group: usize, members: &[NodeId]) -> Result<(), GraphError> {
        let graph = &self.simplified.graph;
        let inside = |n: NodeId| self.group.get(n.index()) == Some(&group);
        let mut region = Region::new(graph);
        // Arguments come first, so that numbers ascend.
        region.take_inputs(members, inside);
        let beside = self.device_node(&region.from, members[0])?;
        region.take_nodes(members, inside);
        let leaving = self.leaving(group, members);
        // No function of a file has such a name.
        let name = format!("_region:{}{}", self.prefix, self.regions);
        self.regions += 1;
        let mut node = region.node(members[0], &leaving, &name);
        node.inputs = region.from.iter().map(|&o| self.value(o)).collect();
        node.controls = distinct(region.waits.iter().map(|c| self.nodes[c.index()]));
        let function = region.function(&node, &leaving, &name);
        self.out.define(function);
        let id = self.push(beside, node);
        for &member in members {
            self.nodes[member.index()] = id;
        }
        for (index, output) in leaving.into_iter().enumerate() {
            let index = index as u32;
            self.values.insert(output, OutputId { node: id, index });
        }
        Ok(())
    }

    /// The outputs of a group that nodes outside of it use or that are fetched.
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

/// A region that is being extracted from a graph.
struct Region<'a> {
    graph: &'a GraphData,
    body: RegionBody,
    /// By argument: the output of the graph that it stands for.
    from: Vec<OutputId>,
    /// The argument for each output that is used from outside.
    here: FxHashMap<OutputId, OutputId>,
    /// The region's node for each node of the graph.
    moved: FxHashMap<NodeId, NodeId>,
    /// Nodes of the graph that the region waits for.
    waits: Vec<NodeId>,
}

impl<'a> Region<'a> {
    /// An empty region.
    fn new(graph: &'a GraphData) -> Region<'a> {
        Region {
            graph,
            body: RegionBody::default(),
            from: Vec::new(),
            here: FxHashMap::default(),
            moved: FxHashMap::default(),
            waits: Vec::new(),
        }
    }

    /// Makes an argument of each outside output that the nodes use.
    fn take_inputs(&mut self, members: &[NodeId], inside: impl Fn(NodeId) -> bool) {
        let graph = self.graph;
        let inputs = members.iter().flat_map(|&m| &graph.node(m).inputs);
        for &input in inputs {
            if inside(input.node) || self.here.contains_key(&input) {
                continue;
            }
            let Some(fact) = graph.fact(input) else {
                continue;
            };
            let name = output_node_name(graph, input);
            let node = self.body.push_argument(name, graph.node(input.node), fact);
            self.here.insert(input, OutputId { node, index: 0 });
            self.from.push(input);
        }
    }

    /// Moves the nodes into the region; inputs that come from later nodes are closed at the end.
    fn take_nodes(&mut self, members: &[NodeId], inside: impl Fn(NodeId) -> bool) {
        let mut open = Vec::new();
        for &member in members {
            let mut node = Node::clone(self.graph.node(member));
            for (i, input) in node.inputs.iter_mut().enumerate() {
                if let Some(&argument) = self.here.get(input) {
                    *input = argument;
                } else if let Some(&node) = self.moved.get(&input.node) {
                    input.node = node;
                } else {
                    open.push((member, i, *input));
                    input.node = NodeId::INVALID;
                }
            }
            let (own, outside): (Vec<NodeId>, Vec<NodeId>) =
                node.controls.iter().partition(|c| inside(**c));
            node.controls = distinct(own.iter().filter_map(|c| self.moved.get(c).copied()));
            self.waits.extend(outside);
            self.moved.insert(member, self.body.graph.push(node));
        }
        for (node, input, from) in open {
            let moved = |node: NodeId| self.moved.get(&node).copied();
            if let (Some(to), Some(node)) = (moved(node), moved(from.node)) {
                self.body.graph.close(to, input, OutputId { node, ..from });
            }
        }
    }

    /// The node that stands for the region, in the place of its first node; its inputs and controls
    /// are left open.
    fn node(&self, first: NodeId, leaving: &[OutputId], function: &str) -> Node {
        let facts = leaving.iter().filter_map(|o| self.graph.fact(*o));
        let facts: SmallVec<[Fact; 1]> = facts.map(|f| f.clone().without_value()).collect();
        let mut attrs = Attrs::default();
        let tin = self.body.arguments.iter().map(|a| a.dtype);
        attrs.set("Tin", Attr::Types(tin.collect()));
        let tout = facts.iter().map(|f| f.dtype);
        attrs.set("Tout", Attr::Types(tout.collect()));
        attrs.set("f", Attr::Func(Func::named(function)));
        let first = self.graph.node(first);
        Node {
            name: first.name.clone(),
            op: &REGION,
            inputs: SmallVec::new(),
            controls: SmallVec::new(),
            attrs,
            device: first.device.clone(),
            colocation: SmallVec::new(),
            outputs: facts,
            origin: first.origin.clone(),
        }
    }

    /// The region as a function, which `node` calls.
    fn function(self, node: &Node, leaving: &[OutputId], name: &str) -> Function {
        let result = |(o, fact): (&OutputId, &Fact)| {
            let port = Port {
                name: self.graph.output_name(*o),
                dtype: fact.dtype,
            };
            let node = self.moved[&o.node];
            (port, OutputId { node, ..*o })
        };
        let results: Vec<_> = leaving.iter().zip(&node.outputs).map(result).collect();
        self.body.function(name, results, node.origin.clone())
    }
}
