//! Liveness: the nodes that a step needs, and the outputs and inputs of branches and loops that it needs.
//!
//! TensorFlow turns branches and loops into Switch and Merge nodes before it prunes, so an output that nothing reads
//! runs nothing in a branch or a body, and needs no input.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::data::GraphData;
use crate::function::{Function, MAX_CALL_DEPTH};
use crate::node::{Node, NodeId, OutputId};
use crate::op::Calls;

/// The needed part of a graph.
pub(crate) struct Liveness {
    /// By number: `true` for nodes that must run.
    pub(crate) needed: Vec<bool>,
    /// The branches and loops among them.
    pub(crate) calls: FxHashMap<NodeId, LivePorts>,
}

/// The needed inputs and outputs of a branch or a loop.
#[derive(Clone)]
pub(crate) struct LivePorts {
    pub(crate) inputs: Vec<bool>,
    pub(crate) outputs: Vec<bool>,
}

impl LivePorts {
    /// Input `i`, which may be out of range.
    pub(crate) fn needs_input(&self, i: usize) -> bool {
        self.inputs.get(i).copied().unwrap_or(true)
    }

    /// The numbers of the needed outputs; `None` if all are needed.
    pub(crate) fn live_outputs(&self) -> Option<Vec<i64>> {
        let live = (0i64..).zip(&self.outputs).filter(|(_, live)| **live);
        (!self.outputs.iter().all(|live| *live)).then(|| live.map(|(i, _)| i).collect())
    }
}

impl GraphData {
    /// The part of the graph that has to run for `fetches` and `targets`; the walk does not go past an output for which
    /// `cut` is true (one that is fed).
    pub(crate) fn liveness(
        &self,
        fetches: impl IntoIterator<Item = OutputId>,
        targets: impl IntoIterator<Item = NodeId>,
        cut: &dyn Fn(OutputId) -> bool,
    ) -> Liveness {
        let mut walk = Walk {
            data: self,
            library: self,
            cut,
            depth: 0,
            seen: vec![false; self.len()],
            stack: Vec::new(),
            calls: FxHashMap::default(),
            changed: BTreeSet::new(),
        };
        walk.run(fetches, targets, &mut FxHashMap::default());
        Liveness {
            needed: walk.seen,
            calls: walk.calls,
        }
    }
}

/// By function and needed results: the needed arguments.
type KnownArguments<'a> = FxHashMap<(&'a str, Vec<bool>), Vec<bool>>;

/// A walk from the needed outputs of a graph, or of the body of a function, to their sources.
struct Walk<'a> {
    data: &'a GraphData,
    /// The graph that has the functions.
    library: &'a GraphData,
    cut: &'a dyn Fn(OutputId) -> bool,
    /// The number of functions around the graph.
    depth: usize,
    seen: Vec<bool>,
    /// Nodes to visit.
    stack: Vec<NodeId>,
    calls: FxHashMap<NodeId, LivePorts>,
    /// Branches and loops of which more is needed than their inputs tell.
    changed: BTreeSet<NodeId>,
}

impl<'a> Walk<'a> {
    fn run(
        &mut self,
        fetches: impl IntoIterator<Item = OutputId>,
        targets: impl IntoIterator<Item = NodeId>,
        known: &mut KnownArguments<'a>,
    ) {
        for target in targets {
            self.stack.push(target);
            let outputs = self.data.get(target).map_or(0, |n| n.outputs.len() as u32);
            (0..outputs).for_each(|index| {
                self.need(OutputId {
                    node: target,
                    index,
                });
            });
        }
        fetches.into_iter().for_each(|output| self.need(output));
        loop {
            while let Some(at) = self.stack.pop() {
                self.visit(at);
            }
            // The last one first: those before it may get more outputs from it.
            let Some(call) = self.changed.pop_last() else {
                return;
            };
            self.visit_call(call, known);
        }
    }

    /// Marks an output as needed.
    fn need(&mut self, output: OutputId) {
        if (self.cut)(output) {
            return;
        }
        self.stack.push(output.node);
        let Some(node) = self.data.get(output.node) else {
            return;
        };
        // The master of a step over several tasks has found the outputs that the rest of the step needs.
        let is_live = node.attrs.is_live(output.index as usize);
        if node.op.calls.runs_whole() || !is_live {
            return;
        }
        let ports = self.calls.entry(output.node).or_insert_with(|| ports(node));
        if let Some(live) = ports.outputs.get_mut(output.index as usize)
            && !std::mem::replace(live, true)
        {
            self.changed.insert(output.node);
        }
    }

    fn visit(&mut self, at: NodeId) {
        // An open input is no number of this graph, and is passed over.
        if at.index() >= self.seen.len() || std::mem::replace(&mut self.seen[at.index()], true) {
            return;
        }
        let data = self.data;
        let node = data.node(at);
        self.stack.extend(node.controls.iter());
        if node.op.calls.runs_whole() {
            node.inputs.iter().for_each(|&input| self.need(input));
            return;
        }
        if let Entry::Vacant(entry) = self.calls.entry(at) {
            entry.insert(ports(node));
        }
        self.changed.insert(at);
    }

    /// Marks the inputs of a branch or a loop that its needed outputs depend on.
    fn visit_call(&mut self, at: NodeId, known: &mut KnownArguments<'a>) {
        let data = self.data;
        let node = data.node(at);
        let Some(ports) = self.calls.get(&at) else {
            return;
        };
        let mut outputs = ports.outputs.clone();
        let called = node.functions();
        let inputs = match node.op.calls {
            Calls::Loop => {
                // The needed values are those of the condition, and those that a needed one is computed from.
                let condition = node.attrs.func("cond").map_or("", |f| &f.name);
                mark(&mut outputs, &self.arguments(condition, &[true], known));
                loop {
                    let before = outputs.clone();
                    let body = node.attrs.func("body").map_or("", |f| &f.name);
                    mark(&mut outputs, &self.arguments(body, &before, known));
                    if outputs == before {
                        break;
                    }
                }
                outputs.clone()
            }
            _ => {
                let mut inputs = vec![false; node.inputs.len().saturating_sub(1)];
                for function in called {
                    mark(&mut inputs, &self.arguments(function, &outputs, known));
                }
                inputs.insert(0, true);
                inputs
            }
        };
        for (i, &input) in node.inputs.iter().enumerate() {
            if inputs.get(i).copied().unwrap_or(true) {
                self.need(input);
            }
        }
        self.calls.insert(at, LivePorts { inputs, outputs });
    }

    /// The arguments that these results of a function, and its effects, depend on; all of them if that is not known.
    fn arguments(
        &self,
        function: &str,
        results: &[bool],
        known: &mut KnownArguments<'a>,
    ) -> Vec<bool> {
        let Some(function) = self.library.function(function) else {
            return vec![true; results.len()];
        };
        let key = (function.name.as_str(), results.to_vec());
        if let Some(found) = known.get(&key) {
            return found.clone();
        }
        let all = vec![true; function.inputs.len()];
        if self.depth >= MAX_CALL_DEPTH || function.outputs.len() != results.len() {
            return all;
        }
        // A call of itself needs all of its arguments.
        known.insert(key.clone(), all);
        let found = self.arguments_of(function, results, known);
        known.insert(key, found.clone());
        found
    }

    fn arguments_of(
        &self,
        function: &'a Function,
        results: &[bool],
        known: &mut KnownArguments<'a>,
    ) -> Vec<bool> {
        let mut walk = Walk {
            data: &function.body,
            library: self.library,
            cut: &|_| false,
            depth: self.depth + 1,
            seen: vec![false; function.body.len()],
            stack: Vec::new(),
            calls: FxHashMap::default(),
            changed: BTreeSet::new(),
        };
        let live = function.outputs.iter().zip(results);
        let live = live.filter(|(_, live)| **live).map(|(output, _)| *output);
        walk.run(live, function.runs(Calls::Branch), known);
        let seen = |node: &NodeId| walk.seen.get(node.index()).copied().unwrap_or(true);
        function.inputs.iter().map(seen).collect()
    }
}

fn ports(node: &Node) -> LivePorts {
    LivePorts {
        inputs: vec![false; node.inputs.len()],
        outputs: vec![false; node.outputs.len()],
    }
}

/// Marks what `more` marks. Lists of other lengths, of a node whose functions do not fit it, mark all.
fn mark(marks: &mut [bool], more: &[bool]) {
    let fits = marks.len() == more.len();
    for (i, marked) in marks.iter_mut().enumerate() {
        *marked |= !fits || more[i];
    }
}
