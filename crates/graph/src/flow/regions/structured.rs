//! Structured control flow: the loops and conditionals that TensorFlow's `while_loop`, `cond` and their gradients build,
//! found in a graph of Switch and Merge.
//!
//! A *part* is one loop, or the branches of one value. Each part that has the expected form becomes a `While` or an `If`.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::branches::Branches;
use super::loops::Loop;
use super::part_order::{PartId, PartOrder, PartSet};
use crate::data::GraphData;
use crate::flow::contexts::{Contexts, Level, value_of};
use crate::flow::ops::{MERGE, SWITCH};
use crate::node::{NodeId, OutputId};
use crate::simplified::Simplified;

/// The node or value that a part belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The loop of this frame.
    Loop(String),
    /// The branches of this value.
    Branches(OutputId),
}

/// A set of nodes that becomes one call.
pub(super) struct Part {
    key: Key,
    /// The nodes, by number.
    pub(super) members: Vec<NodeId>,
    /// Its form.
    pub(super) form: Form,
}

/// The form of a part.
pub(super) enum Form {
    /// None that can be called: the interpreter runs the nodes.
    Unstructured,
    /// A loop.
    Loop(Loop),
    /// Branches.
    Branches(Branches),
}

impl Form {
    /// `true` if values leave the part through a node.
    fn gives(&self, node: NodeId) -> bool {
        match self {
            Form::Unstructured => false,
            Form::Loop(found) => found.gives(node),
            Form::Branches(found) => found.gives(node),
        }
    }
}

/// The parts of a graph.
pub(super) struct Parts<'a> {
    pub(super) graph: &'a GraphData,
    contexts: &'a Contexts,
    /// By node: the part that it belongs to.
    part_of: Vec<Option<PartId>>,
    pub(super) parts: Vec<Part>,
}

impl<'a> Parts<'a> {
    /// Finds the parts of a graph and their forms.
    pub(super) fn find(simplified: &'a Simplified, contexts: &'a Contexts) -> Parts<'a> {
        let graph = &simplified.graph;
        let mut parts = Parts {
            graph,
            contexts,
            part_of: vec![None; graph.len()],
            parts: Vec::new(),
        };
        parts.assign();
        let fetched = simplified.fetches.iter().copied().collect();
        let forms: Vec<Form> = (0..parts.parts.len() as PartId)
            .map(|part| parts.form(part, &fetched))
            .collect();
        for (part, form) in parts.parts.iter_mut().zip(forms) {
            part.form = form;
        }
        parts.drop_split_branches();
        parts
    }

    /// The part of a node.
    pub(super) fn part_of(&self, node: NodeId) -> Option<PartId> {
        self.part_of.get(node.index()).copied().flatten()
    }

    /// The side of the branches of `on` on which an output has a value.
    pub(super) fn side(&self, on: OutputId, output: OutputId) -> Option<u32> {
        let node = self.graph.node(output.node);
        match self.contexts.levels(output.node).first() {
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

    /// The levels around a node, outermost first.
    pub(super) fn levels(&self, node: NodeId) -> SmallVec<[&'a Level; 4]> {
        self.contexts.levels(node)
    }

    /// Assigns nodes to parts. A part is cut where a node depends on its results: the gradient of a conditional is in
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
            let part = part.unwrap_or_else(|| {
                self.parts.push(Part {
                    key: key.clone(),
                    members: Vec::new(),
                    form: Form::Unstructured,
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
        match self.contexts.levels(id).first() {
            Some(Level::Frame(name)) => Some(Key::Loop(name.clone())),
            Some(Level::Branch(on, _)) => Some(Key::Branches(*on)),
            Some(Level::Unknown) => None,
            None => match (node.op.name, &node.inputs[..]) {
                (SWITCH, [_, on]) => Some(Key::Branches(value_of(self.graph, *on))),
                (MERGE, [first, ..]) => match self.key(first.node) {
                    Some(Key::Branches(on)) => Some(Key::Branches(on)),
                    _ => None,
                },
                _ => None,
            },
        }
    }

    fn form(&self, number: PartId, fetched: &FxHashSet<OutputId>) -> Form {
        let part = &self.parts[number as usize];
        let form = match &part.key {
            Key::Loop(_) => Loop::find(self, &part.members).map(Form::Loop),
            Key::Branches(on) => Branches::find(self, number, *on, fetched).map(Form::Branches),
        };
        let form = form.unwrap_or(Form::Unstructured);
        // What leaves a branch or a loop other than by a Merge or an Exit has no value where it was not taken.
        let shown = |o: &&OutputId| self.part_of(o.node) == Some(number);
        match fetched.iter().filter(shown).all(|o| form.gives(o.node)) {
            true => form,
            false => Form::Unstructured,
        }
    }

    /// Lets the interpreter run all branches of a value where it runs some: their parts may use each other's values.
    fn drop_split_branches(&mut self) {
        let unstructured = self
            .parts
            .iter()
            .filter(|p| matches!(p.form, Form::Unstructured));
        let keys: FxHashSet<Key> = unstructured.map(|p| p.key.clone()).collect();
        for part in &mut self.parts {
            if keys.contains(&part.key) {
                part.form = Form::Unstructured;
            }
        }
    }
}
