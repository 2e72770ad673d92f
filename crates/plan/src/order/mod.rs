//! The order of a step, and the dependencies that variables add to it.
//!
//! Beside values and control inputs, a step has an order from its variables: one is read before it is updated unless a
//! control dependency says otherwise, and updates of one variable happen in the order in which they were built. The
//! order found here is a sequence that keeps all of that; dependencies then follow from the sequence, so that they
//! cannot be cyclic.

mod sections;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use thalweg_graph::op::Effect;
use thalweg_graph::{GraphData, NodeId, OutputId};

pub(crate) use sections::order_sections;
use sections::sections;

/// A variable of a step, by number.
pub(super) type VariableId = usize;

/// The reads and updates of variables, by node.
pub(super) struct Accesses {
    /// By node: the variables that it reads, or whose value as read it uses.
    pub(super) uses: Vec<SmallVec<[VariableId; 2]>>,
    /// By node: the variables that it updates.
    pub(super) updates: Vec<SmallVec<[VariableId; 2]>>,
    pub(super) variables: usize,
}

impl Accesses {
    /// `variable_of` has the variable behind a handle; `shares` returns `true` if a node's output shares its input's
    /// buffer.
    pub(super) fn new(
        graph: &GraphData,
        variable_of: &FxHashMap<OutputId, VariableId>,
        shares: &dyn Fn(NodeId) -> bool,
    ) -> Accesses {
        let mut held: FxHashMap<OutputId, VariableId> = FxHashMap::default();
        let mut uses = vec![SmallVec::new(); graph.len()];
        let mut updates = vec![SmallVec::new(); graph.len()];
        for (id, node) in graph.nodes() {
            let calls = !node.functions().is_empty();
            for input in &node.inputs {
                if let Some(&v) = variable_of.get(input) {
                    match node.op.effect {
                        _ if calls => match graph.updates(id, *input) {
                            true => updates[id.index()].push(v),
                            false => uses[id.index()].push(v),
                        },
                        Effect::Write => updates[id.index()].push(v),
                        Effect::Read => {
                            uses[id.index()].push(v);
                            held.insert(OutputId { node: id, index: 0 }, v);
                        }
                        _ => {}
                    }
                } else if let Some(&v) = held.get(input) {
                    uses[id.index()].push(v);
                    if shares(id) {
                        held.insert(OutputId { node: id, index: 0 }, v);
                    }
                }
            }
        }
        let variables = variable_of.values().max().map_or(0, |v| v + 1);
        Accesses {
            uses,
            updates,
            variables,
        }
    }
}

/// Returns the nodes of `graph` in the order in which one thread runs them. Nodes on a cycle are missing.
///
/// Among the nodes that may run next the one built first is taken, but an update waits until all uses of its variable's
/// old value have run, and is then taken at once: its gradient is still in the cache, and its buffer can be given back.
/// A critical section begins after the end of the one before it of the same mutex.
/// A collective waits for those built before it, and is then taken at once: later nodes run while ranks exchange
/// values.
/// A node that may wait for another step, such as the op of a queue, comes after all nodes that do not need it. One of
/// these may be what it waits for, and a GPU runs its nodes in this order.
pub(super) fn sequence(graph: &GraphData, accesses: &Accesses) -> Vec<NodeId> {
    let mut waiting: Vec<u32> = graph
        .nodes()
        .map(|(_, n)| (n.inputs.len() + n.controls.len()) as u32)
        .collect();
    let mut order = Order::new(graph, accesses);
    for id in graph.ids().filter(|id| waiting[id.index()] == 0) {
        order.add(id);
    }
    let mut sequence = Vec::with_capacity(graph.len());
    while let Some(id) = order.next() {
        sequence.push(id);
        order.done(id);
        for next in graph.consumers(id) {
            let w = &mut waiting[next.index()];
            *w -= 1;
            if *w == 0 {
                order.add(next);
            }
        }
    }
    sequence
}

/// Counts of the nodes that an update still waits for although its inputs are there.
#[derive(Clone, Copy, Default)]
struct Blockers {
    /// Reads of its variable and earlier updates of it; of a collective, the one before it.
    hard: u32,
    /// Uses of the variable's old value: the update could run before them, into a copy.
    soft: u32,
}

impl Blockers {
    fn of(&mut self, hard: bool) -> &mut u32 {
        if hard { &mut self.hard } else { &mut self.soft }
    }
}

struct Order<'a> {
    graph: &'a GraphData,
    accesses: &'a Accesses,
    /// By node, if it is an update, a collective or the begin of a critical section.
    blockers: Vec<Blockers>,
    /// By node: the updates that it keeps from running, and whether hard.
    blocks: Vec<SmallVec<[(NodeId, bool); 1]>>,
    ready: BinaryHeap<Reverse<NodeId>>,
    /// Nodes that may wait for another step.
    blocking: BinaryHeap<Reverse<NodeId>>,
    urgent: BinaryHeap<Reverse<NodeId>>,
    deferred: BTreeSet<NodeId>,
    /// By function that was searched: `true` if a node of it may wait for another step.
    functions: HashMap<&'a str, bool>,
}

impl<'a> Order<'a> {
    fn new(graph: &'a GraphData, accesses: &'a Accesses) -> Order<'a> {
        let mut order = Order {
            graph,
            accesses,
            blockers: vec![Blockers::default(); graph.len()],
            blocks: vec![SmallVec::new(); graph.len()],
            ready: BinaryHeap::new(),
            blocking: BinaryHeap::new(),
            urgent: BinaryHeap::new(),
            deferred: BTreeSet::new(),
            functions: HashMap::new(),
        };
        let mut users: Vec<Vec<NodeId>> = vec![Vec::new(); accesses.variables];
        for id in graph.ids() {
            for &v in &accesses.uses[id.index()] {
                users[v].push(id);
            }
        }
        let mut last_update: Vec<Option<NodeId>> = vec![None; accesses.variables];
        for update in graph.ids() {
            let variables = &accesses.updates[update.index()];
            if variables.is_empty() {
                continue;
            }
            let later = downstream(graph, update);
            for &v in variables {
                for &user in users[v].iter().filter(|u| !later.contains(u)) {
                    let hard = graph.node(user).op.effect == Effect::Read;
                    order.block(user, update, hard);
                }
                if let Some(earlier) = last_update[v].replace(update) {
                    order.block(earlier, update, true);
                }
            }
        }
        // Not the order in which they could run: feeds of other shapes change that, and ranks have one order all the same.
        let is_collective = |id: &NodeId| graph.node(*id).op.effect == Effect::Collective;
        let mut last = None;
        for id in graph.ids().filter(is_collective) {
            if let Some(earlier) = last.replace(id) {
                order.block(earlier, id, true);
            }
        }
        for sections in sections(graph, graph.ids()) {
            for pair in sections.windows(2) {
                for &end in &pair[0].ends {
                    order.block(end, pair[1].lock, true);
                }
            }
        }
        order
    }

    fn block(&mut self, first: NodeId, update: NodeId, hard: bool) {
        // An update that also reads its variable does not wait for itself.
        if first != update {
            *self.blockers[update.index()].of(hard) += 1;
            self.blocks[first.index()].push((update, hard));
        }
    }

    fn add(&mut self, id: NodeId) {
        let collective = self.graph.node(id).op.effect == Effect::Collective;
        let waits = collective || !self.is_free(id);
        if !waits && self.may_block(id) {
            self.blocking.push(Reverse(id));
        } else if self.accesses.updates[id.index()].is_empty() && !waits {
            self.ready.push(Reverse(id));
        } else if self.is_free(id) {
            self.urgent.push(Reverse(id));
        } else {
            self.deferred.insert(id);
        }
    }

    /// `true` for a node that may wait for another step, or calls a function with such a node.
    fn may_block(&mut self, id: NodeId) -> bool {
        let blocks = |effect| effect == Effect::Blocking;
        let node = self.graph.node(id);
        self.graph.has_effect(node, &blocks, &mut self.functions)
    }

    /// `true` if all nodes that come before this update have run.
    fn is_free(&self, id: NodeId) -> bool {
        let Blockers { hard, soft } = self.blockers[id.index()];
        hard == 0 && soft == 0
    }

    fn next(&mut self) -> Option<NodeId> {
        let next = self.urgent.pop().or_else(|| self.ready.pop());
        if let Some(Reverse(id)) = next.or_else(|| self.blocking.pop()) {
            return Some(id);
        }
        // Uses of an old value that wait for an update: it goes on, into a copy. Where reads and
        // updates wait for each other in a circle, the update that was built first goes on.
        let unblocked = |id: &&NodeId| self.blockers[id.index()].hard == 0;
        let next = self.deferred.iter().find(unblocked);
        let next = next.or_else(|| self.deferred.first()).copied()?;
        self.deferred.remove(&next);
        Some(next)
    }

    fn done(&mut self, id: NodeId) {
        for (update, hard) in std::mem::take(&mut self.blocks[id.index()]) {
            *self.blockers[update.index()].of(hard) -= 1;
            if self.is_free(update) && self.deferred.remove(&update) {
                self.urgent.push(Reverse(update));
            }
        }
    }
}

/// The nodes that use or wait for `from`, or for another one that does.
fn downstream(graph: &GraphData, from: NodeId) -> FxHashSet<NodeId> {
    let mut all = FxHashSet::default();
    let mut stack = vec![from];
    while let Some(id) = stack.pop() {
        stack.extend(graph.consumers(id).filter(|&c| all.insert(c)));
    }
    all
}

/// By variable, while a sequence is walked: the instructions that later accesses wait for.
pub(super) struct Hazards {
    last_update: Vec<Option<u32>>,
    uses: Vec<Vec<u32>>,
}

impl Hazards {
    pub(super) fn new(variables: usize) -> Hazards {
        Hazards {
            last_update: vec![None; variables],
            uses: vec![Vec::new(); variables],
        }
    }

    /// Adds the instructions that step `at` of the sequence waits for because of the variables that it uses and
    /// updates.
    pub(super) fn visit(
        &mut self,
        at: u32,
        uses: &[VariableId],
        updates: &[VariableId],
        waits_for: &mut Vec<u32>,
    ) {
        for &v in uses {
            waits_for.extend(self.last_update[v]);
            self.uses[v].push(at);
        }
        for &v in updates {
            // One variable behind two inputs: an instruction does not wait for itself.
            waits_for.extend(self.last_update[v].filter(|&u| u != at));
            waits_for.extend(self.uses[v].drain(..).filter(|&u| u != at));
            self.last_update[v] = Some(at);
        }
    }
}

#[cfg(test)]
mod tests;
