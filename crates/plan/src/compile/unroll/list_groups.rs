//! Groups of nodes that share lists, arrays or stacks.

use rustc_hash::FxHashSet;
use thalweg_graph::flow::makes_array;
use thalweg_graph::op::Calls;
use thalweg_graph::{GraphData, NodeId, OutputId};
use thalweg_tensor::DType;

/// The nodes that lists, or handles of arrays and stacks, come to or out of, in groups: the nodes of two groups share none.
pub(super) struct ListGroups {
    /// By node: another node of its group, towards the one that names it; itself where there is no other.
    parent: Vec<usize>,
    /// The nodes that name groups, and the devices of these groups.
    names: Vec<(usize, u32)>,
}

impl ListGroups {
    pub(super) fn new(graph: &GraphData) -> ListGroups {
        let mut groups = ListGroups {
            parent: (0..graph.len()).collect(),
            names: Vec::new(),
        };
        let mut with_lists = vec![false; graph.len()];
        let mut handles: FxHashSet<OutputId> = FxHashSet::default();
        for (id, node) in graph.nodes() {
            let output = |index| OutputId { node: id, index };
            if makes_array(node.op.name) {
                handles.insert(output(0));
            }
            for (i, &input) in (0..).zip(&node.inputs) {
                let is_handle = handles.contains(&input);
                if is_handle && matches!(node.op.calls, Calls::Loop) {
                    handles.insert(output(i));
                }
                let is_list = graph.fact(input).is_some_and(|f| f.dtype == DType::Variant);
                if is_list || is_handle {
                    let (one, other) = (groups.root(id), groups.root(input.node));
                    groups.parent[one] = other;
                    with_lists[id.index()] = true;
                    with_lists[input.node.index()] = true;
                }
            }
        }
        // From here on each node names its group itself.
        for id in graph.ids() {
            groups.parent[id.index()] = groups.root(id);
        }
        let names = graph.ids().filter(|id| with_lists[id.index()]);
        let mut names: Vec<(usize, u32)> = names.map(|id| (groups.name(id), 0)).collect();
        names.sort_unstable();
        names.dedup();
        groups.names = names;
        groups
    }

    /// Returns the node that names a group in the making, and shortens the way to it.
    fn root(&mut self, node: NodeId) -> usize {
        let mut at = node.index();
        while self.parent[at] != at {
            self.parent[at] = self.parent[self.parent[at]];
            at = self.parent[at];
        }
        at
    }

    fn name(&self, node: NodeId) -> usize {
        self.parent[node.index()]
    }

    fn position(&self, node: NodeId) -> Option<usize> {
        let name = self.name(node);
        self.names.binary_search_by_key(&name, |n| n.0).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the device of a node's group, if it is of one.
    pub(super) fn device(&self, node: NodeId) -> Option<u32> {
        self.position(node).map(|at| self.names[at].1)
    }

    /// Leaves out the group of a node.
    pub(super) fn remove(&mut self, node: NodeId) {
        if let Some(at) = self.position(node) {
            self.names.remove(at);
        }
    }

    /// Keeps the groups for whose nodes `device` returns a device.
    pub(super) fn retain(&mut self, graph: &GraphData, device: impl Fn(&[NodeId]) -> Option<u32>) {
        let mut members: Vec<Vec<NodeId>> = vec![Vec::new(); self.names.len()];
        for id in graph.ids() {
            if let Some(group) = self.position(id) {
                members[group].push(id);
            }
        }
        let named = self.names.iter().zip(&members);
        let kept = named.filter_map(|((name, _), members)| Some((*name, device(members)?)));
        self.names = kept.collect();
    }
}
