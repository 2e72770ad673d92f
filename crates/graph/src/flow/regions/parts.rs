//! Parts of a graph with control flow: the nodes of one loop, or of the branches of one value.

use rustc_hash::FxHashMap;

use super::part_order::{PartId, PartOrder, PartSet};
use crate::data::GraphData;
use crate::flow::contexts::{Contexts, Level, Place, value_of};
use crate::flow::ops::{MERGE, SWITCH};
use crate::node::{NodeId, OutputId};

/// The most parts of a graph that are compiled. Which depend on which takes a bit for each node and part.
const MAX_PARTS: usize = 1024;

/// The loop or value that a part belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The loop of this frame.
    Loop(String),
    /// The branches of this value.
    Branches(OutputId),
}

/// The nodes of a part.
pub(super) struct PartNodes {
    pub(super) key: Key,
    /// The nodes, by number.
    pub(super) members: Vec<NodeId>,
}

/// The parts of a graph.
pub(super) struct Parts<'a> {
    pub(super) graph: &'a GraphData,
    contexts: &'a Contexts,
    /// By node: the part that it belongs to.
    part_of: Vec<Option<PartId>>,
    pub(super) parts: Vec<PartNodes>,
}

impl<'a> Parts<'a> {
    /// Finds the parts of a graph.
    pub(super) fn find(graph: &'a GraphData, contexts: &'a Contexts) -> Parts<'a> {
        let mut parts = Parts {
            graph,
            contexts,
            part_of: vec![None; graph.len()],
            parts: Vec::new(),
        };
        parts.assign();
        parts
    }

    /// The part of a node.
    pub(super) fn part_of(&self, node: NodeId) -> Option<PartId> {
        self.part_of.get(node.index()).copied().flatten()
    }

    /// The side of the branches of `on` on which an output has a value.
    pub(super) fn side(&self, on: OutputId, output: OutputId) -> Option<u32> {
        let node = self.graph.node(output.node);
        match self.contexts.place(output.node).outer {
            Some(Level::Branch(value, side)) if *value == on => Some(*side),
            None => {
                let decides = node.inputs.get(1).filter(|_| node.op.name == SWITCH)?;
                (value_of(self.graph, *decides) == on).then_some(output.index)
            }
            _ => None,
        }
    }

    /// `true` if a node belongs to a part of the branches of `on`.
    pub(super) fn is_branch_of(&self, node: NodeId, on: OutputId) -> bool {
        let part = self.part_of(node).map(|p| &self.parts[p as usize]);
        part.is_some_and(|p| p.key == Key::Branches(on))
    }

    /// The levels around a node.
    pub(super) fn place(&self, node: NodeId) -> Place<'a> {
        self.contexts.place(node)
    }

    /// Assigns nodes to parts; to none if there are too many. A part is cut where a node depends on its results: the gradient of a conditional is in
    /// the same branches as the conditional, but it comes after it.
    fn assign(&mut self) {
        // By node outside of all parts: the parts that it depends on.
        let mut after: Vec<PartSet> = vec![PartSet::default(); self.graph.len()];
        let mut order = PartOrder::default();
        let mut latest: FxHashMap<Key, PartId> = FxHashMap::default();
        for (id, node) in self.graph.nodes() {
            // The parts of its sources, and those on which sources outside of parts depend.
            let (mut beside, mut before) = (PartSet::default(), PartSet::default());
            let inputs = node.inputs.iter().map(|i| i.node);
            // The way back of a loop stays inside of it.
            for source in inputs
                .chain(node.controls.iter().copied())
                .filter(|&s| s < id)
            {
                match self.part_of(source) {
                    Some(part) => beside.insert(part),
                    None => before.add(&after[source.index()]),
                }
            }
            let Some(key) = self.key(id) else {
                before.add(&beside);
                after[id.index()] = before;
                continue;
            };
            let part = latest.get(&key).copied().filter(|&part| {
                let mut sources = beside.iter().filter(|&p| p != part).chain(before.iter());
                matches!(key, Key::Loop(_))
                    || !sources.any(|p| p == part || order.is_after(p, part))
            });
            if part.is_none() && self.parts.len() == MAX_PARTS {
                self.parts.clear();
                self.part_of.fill(None);
                return;
            }
            let part = part.unwrap_or_else(|| {
                self.parts.push(PartNodes {
                    key: key.clone(),
                    members: Vec::new(),
                });
                self.parts.len() as PartId - 1
            });
            latest.insert(key, part);
            before.add(&beside);
            before.remove(part);
            order.put_after(part, &before);
            self.part_of[id.index()] = Some(part);
            self.parts[part as usize].members.push(id);
        }
    }

    /// The key of the part of a node; `None` outside of all parts.
    fn key(&self, id: NodeId) -> Option<Key> {
        let node = self.graph.node(id);
        match self.contexts.place(id).outer {
            Some(Level::Frame(name)) => Some(Key::Loop(name.clone())),
            Some(Level::Branch(on, _)) => Some(Key::Branches(*on)),
            Some(Level::Unknown) => None,
            None => match (node.op.name, &node.inputs[..]) {
                (SWITCH, [_, on]) => Some(Key::Branches(value_of(self.graph, *on))),
                (MERGE, [first, ..]) => {
                    let part = &self.parts[self.part_of(first.node)? as usize];
                    matches!(part.key, Key::Branches(_)).then(|| part.key.clone())
                }
                _ => None,
            },
        }
    }
}
