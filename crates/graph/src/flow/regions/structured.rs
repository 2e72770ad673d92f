//! Structured control flow: the loops and conditionals that TensorFlow's `while_loop`, `cond` and their gradients build,
//! found in a graph of Switch and Merge.
//!
//! A *part* is one loop, or the branches of one value. Each part that has the expected form becomes a `While` or an `If`.

use rustc_hash::FxHashSet;

use super::branches::Branches;
use super::loops::Loop;
use super::part_order::PartId;
use super::parts::{Key, Parts};
use crate::flow::contexts::Contexts;
use crate::node::{NodeId, OutputId};
use crate::simplified::Simplified;

/// The most levels of loops and branches that become calls in calls. The interpreter runs deeper ones: a call takes room
/// on the thread's stack.
const MAX_DEPTH: u32 = 16;

/// A set of nodes that becomes one call.
pub(super) struct Part {
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

/// The parts of a graph, with their forms. The interpreter runs all branches of a value where it runs some: their parts
/// may use each other's values.
pub(super) fn structured(simplified: &Simplified, contexts: &Contexts) -> Vec<Part> {
    let found = Parts::find(&simplified.graph, contexts);
    let fetched = simplified.fetches.iter().copied().collect();
    let forms: Vec<Form> = (0..found.parts.len() as PartId)
        .map(|part| form(&found, part, &fetched))
        .collect();
    let unstructured = found.parts.iter().zip(&forms);
    let unstructured = unstructured.filter(|(_, form)| matches!(form, Form::Unstructured));
    let keys: FxHashSet<Key> = unstructured.map(|(part, _)| part.key.clone()).collect();
    let parts = found.parts.into_iter().zip(forms);
    parts
        .map(|(part, form)| Part {
            form: match keys.contains(&part.key) {
                true => Form::Unstructured,
                false => form,
            },
            members: part.members,
        })
        .collect()
}

/// The form of a part.
fn form(parts: &Parts<'_>, number: PartId, fetched: &FxHashSet<OutputId>) -> Form {
    let part = &parts.parts[number as usize];
    let too_deep = |m: &NodeId| parts.place(*m).depth > MAX_DEPTH;
    if part.members.iter().any(too_deep) {
        return Form::Unstructured;
    }
    let form = match &part.key {
        Key::Loop(_) => Loop::find(parts, &part.members).map(Form::Loop),
        Key::Branches(on) => Branches::find(parts, number, *on, fetched).map(Form::Branches),
    };
    let form = form.unwrap_or(Form::Unstructured);
    // A value that leaves a branch or a loop other than by a Merge or an Exit is dead where it was not taken.
    let shown = |o: &&OutputId| parts.part_of(o.node) == Some(number);
    match fetched.iter().filter(shown).all(|o| form.gives(o.node)) {
        true => form,
        false => Form::Unstructured,
    }
}
