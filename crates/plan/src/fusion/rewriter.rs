//! The graph that fusion rewrites.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::{Cpu, Op};
use thalweg_graph::simplify::{Simplified, known};
use thalweg_graph::{Attr, Fact, Node, NodeId, OutputId};
use thalweg_tensor::Tensor;

use crate::kernels::Kernels;

/// The nodes of a graph. A node may be replaced by one that has other inputs, which come before it, or be left out. A
/// new output of a node has its number at once.
pub(super) struct Rewriter<'a> {
    simplified: Simplified,
    /// By number of a device: its CPU, where it is no GPU.
    cpus: &'a [Option<&'a Cpu>],
    kernels: &'a Kernels,
    /// By node, as it is now; none where it is left out.
    nodes: Vec<Option<Arc<Node>>>,
    /// By node: the nodes that use its outputs, as often as they do; none of a node whose value is known, which may have
    /// any number of them, and stays.
    users: Vec<SmallVec<[NodeId; 4]>>,
    /// By node: `true` if it is fetched, fed, waited for, or a target.
    held: Vec<bool>,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(
        simplified: Simplified,
        cpus: &'a [Option<&'a Cpu>],
        kernels: &'a Kernels,
    ) -> Rewriter<'a> {
        let graph = &simplified.graph;
        let nodes: Vec<_> = graph.nodes().map(|(_, n)| Some(n.clone())).collect();
        let fetched = simplified.fetches.iter().map(|o| &o.node);
        let fed = simplified.feeds.iter().flatten();
        let mut held = vec![false; graph.len()];
        let mut hold = |node: &NodeId| held[node.index()] = true;
        fetched
            .chain(fed)
            .chain(&simplified.targets)
            .for_each(&mut hold);
        let mut users = vec![SmallVec::new(); graph.len()];
        for (id, node) in graph.nodes() {
            node.controls.iter().for_each(&mut hold);
            for input in node.inputs.iter().filter(|i| !known(graph.node(i.node))) {
                users[input.node.index()].push(id);
            }
        }
        Rewriter {
            simplified,
            cpus,
            kernels,
            nodes,
            users,
            held,
        }
    }

    /// The nodes on CPUs, in order.
    pub(super) fn ids(&self) -> Vec<NodeId> {
        self.nodes_where(|id| self.cpu(id).is_some())
    }

    /// The nodes on GPUs, in order.
    pub(super) fn ids_on_gpus(&self) -> Vec<NodeId> {
        self.nodes_where(|id| self.cpu(id).is_none())
    }

    fn nodes_where(&self, is: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let all = (0..self.len()).map(|i| self.id(i));
        all.filter(|&id| self.node(id).is_some() && is(id))
            .collect()
    }

    /// Returns the names of nodes.
    pub(super) fn names(&self, of: impl Iterator<Item = NodeId>) -> Attr {
        let name = |id| Some(self.node(id)?.name.as_bytes().to_vec());
        Attr::Strs(of.filter_map(name).collect())
    }

    /// Returns the number of nodes that there were.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node of this number.
    pub(super) fn id(&self, index: usize) -> NodeId {
        self.simplified.graph.id(index)
    }

    /// The CPU that a node is on, if it is on one.
    pub(super) fn cpu(&self, id: NodeId) -> Option<&'a Cpu> {
        let device = self.simplified.devices[id.index()];
        *self.cpus.get(device as usize)?
    }

    /// The op of a node, with its kernels.
    pub(super) fn op(&self, node: &Node) -> Option<&'static Op> {
        self.kernels.get(node.op.name).copied()
    }

    /// `true` if a node may be left out when nothing uses it any more, and moved: nothing else asks for it, and it
    /// waits for nothing.
    pub(super) fn is_free(&self, id: NodeId) -> bool {
        let waits = self.node(id).is_none_or(|n| !n.controls.is_empty());
        !waits && !self.held[id.index()]
    }

    /// A node, if it is of one of these ops, and not folded to a value, which has no inputs any more.
    pub(super) fn is(&self, id: NodeId, ops: &[&str]) -> Option<&Arc<Node>> {
        let node = self.nodes[id.index()].as_ref()?;
        (ops.contains(&node.op.name) && !known(node)).then_some(node)
    }

    /// Returns the node behind input `i` of `user`, where it is of one of these ops, its only output is for `user`
    /// alone, it is on the same device, and nothing waits for it: it can be left out.
    pub(super) fn only_for(&self, user: NodeId, i: usize, ops: &[&str]) -> Option<NodeId> {
        let node = self.first_only_for(user, i, ops)?;
        let only = self.users(node) == [user] && self.node(node)?.outputs.len() == 1;
        only.then_some(node)
    }

    /// As [`Rewriter::only_for`], for a node that has other outputs too, which may be used: its first output is for
    /// `user` alone.
    pub(super) fn first_only_for(&self, user: NodeId, i: usize, ops: &[&str]) -> Option<NodeId> {
        let input = *self.node(user)?.inputs.get(i)?;
        self.is(input.node, ops)?;
        let uses = |id: &NodeId| {
            let inputs = self.node(*id).map_or(&[][..], |n| &n.inputs);
            inputs.iter().filter(|&&i| i == input).count()
        };
        let mut users: SmallVec<[NodeId; 4]> = self.users(input.node).into();
        users.sort_unstable();
        users.dedup();
        let alone = uses(&user) == 1 && users.iter().map(uses).sum::<usize>() == 1;
        let fits = input.index == 0 && alone && self.is_free(input.node);
        (fits && self.together(user, input.node)).then_some(input.node)
    }

    /// `true` if an output is used or fetched, or may be fed.
    pub(super) fn is_seen(&self, output: OutputId) -> bool {
        let fetched = self.simplified.fetches.contains(&output);
        let fed = self.simplified.feeds.contains(&Some(output.node));
        let uses = |&id: &NodeId| self.node(id).is_some_and(|n| n.inputs.contains(&output));
        fetched || fed || self.users(output.node).iter().any(uses)
    }

    /// A node, if it has not been left out.
    pub(super) fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes[id.index()].as_ref()
    }

    /// The nodes that use the outputs of this one.
    pub(super) fn users(&self, id: NodeId) -> &[NodeId] {
        &self.users[id.index()]
    }

    /// `true` if two nodes are on one device.
    pub(super) fn together(&self, a: NodeId, b: NodeId) -> bool {
        self.simplified.devices[a.index()] == self.simplified.devices[b.index()]
    }

    /// Returns the dtype, shape and value of an output, as far as known.
    pub(super) fn fact(&self, output: OutputId) -> Option<&Fact> {
        self.node(output.node)?.outputs.get(output.index as usize)
    }

    /// A value that is known before the step, of a node that waits for no other: a rule may leave it out.
    pub(super) fn free_value(&self, output: OutputId) -> Option<&Tensor> {
        let node = self.node(output.node)?;
        let is_free = node.controls.is_empty() && known(node);
        self.fact(output).filter(|_| is_free)?.value.as_ref()
    }

    /// The dimensions of an output, where all are known.
    pub(super) fn dims(&self, output: OutputId) -> Option<thalweg_tensor::Dims> {
        self.fact(output)?.shape.to_dims()
    }

    /// `true` if a node is fetched, fed, waited for, or a target.
    pub(super) fn is_held(&self, id: NodeId) -> bool {
        self.held[id.index()]
    }

    /// Puts another node in the place of one.
    pub(super) fn replace(&mut self, id: NodeId, node: Node) {
        self.forget(id);
        for input in &node.inputs {
            if self.node(input.node).is_some_and(|n| !known(n)) {
                self.users[input.node.index()].push(id);
            }
        }
        self.nodes[id.index()] = Some(Arc::new(node));
    }

    /// Lets all users of a node use another one.
    pub(super) fn redirect(&mut self, from: NodeId, to: NodeId) {
        for user in std::mem::take(&mut self.users[from.index()]) {
            let Some(node) = self.nodes[user.index()].as_mut() else {
                continue;
            };
            let inputs = &mut Arc::make_mut(node).inputs;
            if let Some(input) = inputs.iter_mut().find(|i| i.node == from) {
                input.node = to;
                self.users[to.index()].push(user);
            }
        }
    }

    /// Removes a node that nothing uses any more.
    pub(super) fn remove(&mut self, id: NodeId) {
        self.forget(id);
        self.nodes[id.index()] = None;
    }

    /// Removes a node from the users of its inputs.
    fn forget(&mut self, id: NodeId) {
        let Some(node) = self.nodes[id.index()].clone() else {
            return;
        };
        for input in &node.inputs {
            let users = &mut self.users[input.node.index()];
            if let Some(at) = users.iter().position(|&u| u == id) {
                users.remove(at);
            }
        }
    }

    /// The graph as it is now.
    pub(super) fn finish(self) -> Simplified {
        let mut graph = self.simplified.graph.empty();
        let mut devices = Vec::with_capacity(self.nodes.len());
        let mut moved = vec![NodeId::INVALID; self.nodes.len()];
        let to = |moved: &[NodeId], o: OutputId| OutputId {
            node: moved[o.node.index()],
            ..o
        };
        for (at, node) in self.nodes.into_iter().enumerate() {
            let Some(mut node) = node else { continue };
            let there = |i: &OutputId| moved[i.node.index()] == i.node;
            let waits = node.controls.iter().all(|c| moved[c.index()] == *c);
            if !node.inputs.iter().all(there) || !waits {
                let own = Arc::make_mut(&mut node);
                own.inputs.iter_mut().for_each(|i| *i = to(&moved, *i));
                own.controls.iter_mut().for_each(|c| *c = moved[c.index()]);
            }
            moved[at] = graph.push(node);
            devices.push(self.simplified.devices[at]);
        }
        Simplified {
            graph,
            feeds: self
                .simplified
                .feeds
                .iter()
                .map(|f| f.map(|n| moved[n.index()]))
                .collect(),
            fetches: self
                .simplified
                .fetches
                .iter()
                .map(|&o| to(&moved, o))
                .collect(),
            targets: self
                .simplified
                .targets
                .iter()
                .map(|n| moved[n.index()])
                .collect(),
            devices,
        }
    }
}
