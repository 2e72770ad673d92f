//! Groups of nodes that share lists, arrays or stacks.

use rustc_hash::FxHashSet;
use thalweg_graph::flow::makes_holder;
use thalweg_graph::op::Calls;
use thalweg_graph::{GraphData, NodeId, OutputId};
use thalweg_tensor::DType;

/// The nodes that lists, or handles of arrays and stacks, come to or out of, in groups: the nodes of two groups share none.
pub(super) struct ListGroups {
    /// By node: the node that names its group.
    name: Vec<usize>,
    /// The nodes that name groups, and the devices of these groups.
    groups: Vec<(usize, u32)>,
}

impl ListGroups {
    pub(super) fn new(graph: &GraphData) -> ListGroups {
        let mut pairs: Vec<[NodeId; 2]> = Vec::new();
        let mut handles: FxHashSet<OutputId> = FxHashSet::default();
        for (id, node) in graph.nodes() {
            let output = |index| OutputId { node: id, index };
            if makes_holder(node.op.name) {
                handles.insert(output(0));
            }
            for (i, &input) in (0..).zip(&node.inputs) {
                let is_handle = handles.contains(&input);
                if is_handle && matches!(node.op.calls, Calls::Loop) {
                    handles.insert(output(i));
                }
                let is_list = graph.fact(input).is_some_and(|f| f.dtype == DType::Variant);
                if is_list || is_handle {
                    pairs.push([id, input.node]);
                }
            }
        }
        let name = graph.groups(pairs.iter().copied());
        let named = pairs.iter().map(|[user, _]| (name[user.index()], 0));
        let mut groups: Vec<(usize, u32)> = named.collect();
        groups.sort_unstable();
        groups.dedup();
        ListGroups { name, groups }
    }

    fn position(&self, node: NodeId) -> Option<usize> {
        let name = self.name[node.index()];
        self.groups.binary_search_by_key(&name, |n| n.0).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the device of a node's group, if it is of one.
    pub(super) fn device(&self, node: NodeId) -> Option<u32> {
        self.position(node).map(|at| self.groups[at].1)
    }

    /// Leaves out the group of a node.
    pub(super) fn remove(&mut self, node: NodeId) {
        if let Some(at) = self.position(node) {
            self.groups.remove(at);
        }
    }

    /// Keeps the groups for whose nodes `device` returns a device.
    pub(super) fn retain(&mut self, graph: &GraphData, device: impl Fn(&[NodeId]) -> Option<u32>) {
        let mut members: Vec<Vec<NodeId>> = vec![Vec::new(); self.groups.len()];
        for id in graph.ids() {
            if let Some(group) = self.position(id) {
                members[group].push(id);
            }
        }
        let named = self.groups.iter().zip(&members);
        let kept = named.filter_map(|((name, _), members)| Some((*name, device(members)?)));
        self.groups = kept.collect();
    }
}
