//! The end of the walk: loops are closed, and what folding has made unused is left out.

use std::sync::Arc;

use super::{Pass, Simplified, known};
use crate::node::{NodeId, OutputId};

impl Pass<'_> {
    /// Gives the inputs that come from later nodes, which all have been visited by now.
    pub(super) fn close_loops(&mut self) {
        for (node, input, from) in std::mem::take(&mut self.open) {
            if let Some(&from) = self.values.get(&from) {
                self.out.close(node, input, from);
            }
        }
    }

    /// Leaves out what folding has made unused: a node whose outputs are all known needs no inputs.
    pub(super) fn finish(self, fetches: Vec<OutputId>, targets: Vec<NodeId>) -> Simplified {
        let mut needed = vec![false; self.out.len()];
        let feeds = self.feeds.iter().flatten().copied();
        let fetched = fetches.iter().map(|f| f.node);
        let mut stack: Vec<NodeId> = fetched
            .chain(targets.iter().copied())
            .chain(feeds)
            .collect();
        while let Some(id) = stack.pop() {
            let Some(seen) = needed.get_mut(id.index()) else {
                continue;
            };
            if !std::mem::replace(seen, true) {
                let node = self.out.node(id);
                let inputs = node.inputs.iter().filter(|_| !known(node));
                stack.extend(inputs.map(|i| i.node).chain(node.controls.iter().copied()));
            }
        }
        let mut graph = self.out.empty();
        let mut devices = Vec::new();
        let mut moved: Vec<NodeId> = vec![NodeId::INVALID; needed.len()];
        let mut open = Vec::new();
        for (at, mut arc) in self.out.into_nodes().enumerate() {
            if !needed[at] {
                continue;
            }
            // Nobody else holds it: it is changed where it is.
            let node = Arc::make_mut(&mut arc);
            if known(node) {
                node.inputs.clear();
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
            node.controls.iter_mut().for_each(|c| *c = moved[c.index()]);
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
