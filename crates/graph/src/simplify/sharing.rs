//! Sharing of nodes with the same computation.

use smallvec::SmallVec;

use super::Simplifier;
use crate::attr::Attr;
use crate::node::{Node, NodeId, OutputId};

impl Simplifier<'_> {
    /// Adds a node for one of the old graph, or finds one with the same computation.
    pub(super) fn place(&mut self, old: NodeId, new: Node, pure: bool) -> NodeId {
        let shared = match self.options.share && pure {
            true => self.shared(old, &new),
            false => None,
        };
        shared.unwrap_or_else(|| {
            let open = new.inputs.iter().enumerate();
            let open: SmallVec<[usize; 2]> = open
                .filter(|(_, i)| i.node.is_invalid())
                .map(|(i, _)| i)
                .collect();
            let id = self.push(old, new);
            for i in open {
                self.open.push((id, i, self.data.node(old).inputs[i]));
            }
            let hash = self.hash(id);
            self.equal.entry(hash).or_default().push(id);
            id
        })
    }

    /// A node of the new graph with the same computation.
    fn shared(&self, old: NodeId, node: &Node) -> Option<NodeId> {
        let device = self.device(old);
        let hash = hash(node, &node.inputs, &node.controls);
        let same = |id: &&NodeId| {
            let other = self.out.node(**id);
            std::ptr::eq(other.op, node.op)
                && other.inputs == node.inputs
                && other.controls == node.controls
                && self.devices[id.index()] == device
                && other.attrs == node.attrs
                && other.outputs == node.outputs
        };
        self.equal.get(&hash)?.iter().find(same).copied()
    }

    fn hash(&self, id: NodeId) -> u64 {
        let node = self.out.node(id);
        hash(node, &node.inputs, &node.controls)
    }
}

fn hash(node: &Node, inputs: &[OutputId], controls: &[NodeId]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    // The keys may come from a file: this hash resists crafted collisions.
    let mut h = DefaultHasher::new();
    node.op.name.hash(&mut h);
    inputs.hash(&mut h);
    controls.hash(&mut h);
    for (name, value) in node.attrs.iter() {
        name.hash(&mut h);
        match value {
            Attr::Type(v) => v.hash(&mut h),
            Attr::Int(v) => v.hash(&mut h),
            Attr::Float(v) => v.to_bits().hash(&mut h),
            Attr::Bool(v) => v.hash(&mut h),
            Attr::Str(v) => v.hash(&mut h),
            Attr::Shape(v) => v.hash(&mut h),
            Attr::Tensor(v) => v.bytes().hash(&mut h),
            Attr::Ints(v) => v.hash(&mut h),
            Attr::Types(v) => v.hash(&mut h),
            // Nodes that differ only in these are told apart by the full comparison.
            _ => value.kind().hash(&mut h),
        }
    }
    h.finish()
}
