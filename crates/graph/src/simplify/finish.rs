//! The last stage of simplification: closes loops, and removes nodes that folding has made unused.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Simplified, Simplifier, known};
use crate::node::{Attrs, NodeId, OutputId};
use crate::op::Effect;

/// The use of a node, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// None.
    None,
    /// Other nodes wait for it, and its values are not used.
    Awaited,
    /// It runs.
    Runs,
}

/// Renumbers control inputs, without those that were removed.
fn renumber(controls: &mut SmallVec<[NodeId; 2]>, moved: &[NodeId]) {
    controls.iter_mut().for_each(|c| *c = moved[c.index()]);
    controls.retain(|c| !c.is_invalid());
    controls.sort();
    controls.dedup();
}

impl Simplifier<'_> {
    /// Sets the inputs that come from later nodes, which all have been visited by now.
    pub(super) fn close_loops(&mut self) {
        for (node, input, from) in std::mem::take(&mut self.open) {
            if let Some(&from) = self.values.get(&from) {
                self.out.close(node, input, from);
            }
        }
    }

    /// `true` if a node can be removed when its values are unused: it has no effect, and runs
    /// exactly once.
    pub(super) fn is_removable(&self, id: NodeId) -> bool {
        let node = self.out.node(id);
        // Random numbers advance from step to step, used or not; the effects of a function are not
        // known.
        let idle = matches!(node.op.effect, Effect::Pure | Effect::Read);
        idle && !self.flowing[id.index()] && node.functions().is_empty()
    }

    /// The use of each node.
    fn uses(&self, roots: impl Iterator<Item = NodeId>, pass_over: bool) -> Vec<Use> {
        let mut uses = vec![Use::None; self.out.len()];
        let mut stack: Vec<(NodeId, Use)> = roots.map(|n| (n, Use::Runs)).collect();
        while let Some((id, wanted)) = stack.pop() {
            let wanted = match wanted {
                Use::Awaited if !(pass_over && self.is_removable(id)) => Use::Runs,
                wanted => wanted,
            };
            let Some(known_use) = uses.get_mut(id.index()).filter(|u| **u < wanted) else {
                continue;
            };
            *known_use = wanted;
            let node = self.out.node(id);
            let inputs = node.inputs.iter().filter(|_| !known(node));
            stack.extend(inputs.map(|i| (i.node, wanted)));
            stack.extend(node.controls.iter().map(|&c| (c, Use::Awaited)));
        }
        uses
    }

    /// Removes nodes that folding has made unused: a node whose outputs are all known needs no
    /// inputs. A node without effects that others only wait for does not run either: TensorFlow's
    /// gradients wait for all nodes computed beside them, used or not. Its control inputs are
    /// waited for in its place.
    pub(super) fn finish(self, fetches: Vec<OutputId>, targets: Vec<NodeId>) -> Simplified {
        let feeds = self.feeds.iter().flatten().copied();
        let fetched = fetches.iter().map(|f| f.node);
        let roots = fetched.chain(targets.iter().copied()).chain(feeds);
        let nothing = self.options.ops.and_then(|find| find("NoOp"));
        let uses = self.uses(roots, self.options.share && nothing.is_some());
        let mut graph = self.out.empty();
        let mut devices = Vec::new();
        let mut moved: Vec<NodeId> = vec![NodeId::INVALID; uses.len()];
        let mut open = Vec::new();
        for (at, mut arc) in self.out.into_nodes().enumerate() {
            if uses[at] == Use::None {
                continue;
            }
            // This is the only reference: the node is changed in place.
            let node = Arc::make_mut(&mut arc);
            if known(node) {
                node.inputs.clear();
            }
            if let (Use::Awaited, Some(op)) = (uses[at], nothing) {
                let inputs = std::mem::take(&mut node.inputs);
                node.controls.extend(inputs.iter().map(|i| i.node));
                renumber(&mut node.controls, &moved);
                match node.controls[..] {
                    [] => continue,
                    [only] => {
                        moved[at] = only;
                        continue;
                    }
                    _ => {}
                }
                (node.op, node.attrs) = (op, Attrs::default());
                node.outputs.clear();
                moved[at] = graph.push(arc);
                devices.push(self.devices[at]);
                continue;
            }
            for (i, input) in node.inputs.iter_mut().enumerate() {
                if input.node.index() >= at {
                    open.push((at, i, *input));
                }
                input.node = moved
                    .get(input.node.index())
                    .copied()
                    .unwrap_or(NodeId::INVALID);
            }
            renumber(&mut node.controls, &moved);
            moved[at] = graph.push(arc);
            devices.push(self.devices[at]);
        }
        let at = |o: OutputId| OutputId {
            node: moved[o.node.index()],
            ..o
        };
        for (node, input, from) in open {
            if from.node.index() < moved.len() {
                graph.close(moved[node], input, at(from));
            }
        }
        let here = |n: NodeId| moved[n.index()];
        Simplified {
            feeds: self.feeds.iter().map(|f| f.map(here)).collect(),
            fetches: fetches.into_iter().map(at).collect(),
            targets: targets.into_iter().map(here).collect(),
            graph,
            devices,
        }
    }
}
