//! A graph in which each node of another one is copied, or has others in its place.

use crate::data::GraphData;
use crate::node::{Node, NodeId, OutputId};
use crate::simplified::Simplified;

/// A graph in the making, in which nodes of another one have others in front of them or in their place.
pub struct Rebuilt {
    /// The graph.
    pub graph: GraphData,
    devices: Vec<u32>,
    /// By node of the old graph: the node that has its outputs, and has run when it has.
    nodes: Vec<NodeId>,
}

impl Rebuilt {
    /// Without nodes, with the functions of a graph.
    pub fn of(old: &Simplified) -> Rebuilt {
        Rebuilt {
            graph: old.graph.empty(),
            devices: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// A copy of a node of the old graph, with the inputs and control inputs of this one.
    pub fn copied(&self, node: &Node) -> Node {
        let mut node = node.clone();
        for input in &mut node.inputs {
            input.node = self.here(input.node);
        }
        for control in &mut node.controls {
            *control = self.here(*control);
        }
        node.controls.sort();
        node.controls.dedup();
        node
    }

    /// Adds a node on a device.
    pub fn push(&mut self, device: u32, node: Node) -> NodeId {
        self.devices.push(device);
        self.graph.push(node)
    }

    /// The node for one of the old graph.
    pub fn here(&self, old: NodeId) -> NodeId {
        self.nodes
            .get(old.index())
            .copied()
            .unwrap_or(NodeId::INVALID)
    }

    /// Puts a node in the place of the old graph's next one.
    pub fn replace_next(&mut self, with: NodeId) {
        self.nodes.push(with);
    }

    /// The graph, with feeds, fetches and targets as those of the old one.
    pub fn finish(self, old: &Simplified) -> Simplified {
        let node = |n: &NodeId| self.here(*n);
        let feeds = old.feeds.iter().map(|f| f.as_ref().map(node)).collect();
        let fetches = old.fetches.iter().map(|f| OutputId {
            node: self.here(f.node),
            ..*f
        });
        Simplified {
            feeds,
            fetches: fetches.collect(),
            targets: old.targets.iter().map(node).collect(),
            graph: self.graph,
            devices: self.devices,
        }
    }
}
