//! Inlining of calls: the nodes of a called function in place of the call.
//!
//! A node `call/name` stands for node `name` of the function that `call` calls, and an `IdentityN` of the results, or a
//! `NoOp`, keeps the name of the call. Nodes with effects wait for what the call waits for, and what waits for the call
//! waits for them, as in a call.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_graph::function::{ARGUMENT, MAX_CALL_DEPTH};
use thalweg_graph::op::{Calls, Effect};
use thalweg_graph::{Attr, Function, ImportedNode, Node, NodeId, OutputId};

use crate::error::{ImportError, Problem};
use crate::import::functions::Functions;
use crate::tensor::Budget;

/// The ops that call a function once.
const CALLS: [&str; 2] = ["PartitionedCall", "StatefulPartitionedCall"];

/// A call in the graph that is imported into.
pub(super) struct Call {
    /// The name of its node.
    pub name: String,
    pub node: ImportedNode,
    pub arguments: Vec<OutputId>,
    pub controls: Vec<NodeId>,
}

impl<'d> Functions<'d> {
    /// The function that a node of this op and these attributes calls, if it is to be inlined. A function with a loop of
    /// single nodes is not.
    pub(super) fn inlined<'a>(
        &mut self,
        op: &str,
        mut attrs: impl Iterator<Item = (&'a str, &'a Attr)>,
        budget: &mut Budget,
    ) -> Result<Option<Arc<Function>>, ImportError> {
        let Some(build) = self.inlining.filter(|_| CALLS.contains(&op)) else {
            return Ok(None);
        };
        let name = attrs.find_map(|(name, attr)| match attr {
            Attr::Func(func) if name == "f" => Some(&*func.name),
            _ => None,
        });
        let Some(name) = name else { return Ok(None) };
        if let Some(function) = self.bodies.get(name) {
            return Ok(Some(function.clone()));
        }
        let Some(wanted) = self.to_do.iter().find(|u| u.name == name).cloned() else {
            return Ok(None);
        };
        let function = Arc::new(build(self, &wanted, budget)?);
        let loops = |node: &Node| node.op.effect == Effect::Flow;
        if function.body.nodes().any(|(_, node)| loops(node)) {
            return Ok(None);
        }
        self.bodies.insert(name.to_owned(), function.clone());
        Ok(Some(function))
    }

    /// Adds the nodes of a called function, and one that stands for the call. Returns the latter.
    pub(super) fn inline(
        &mut self,
        call: Call,
        function: &Function,
        depth: usize,
        budget: &mut Budget,
    ) -> Result<NodeId, ImportError> {
        self.count_nodes(function.body.len())?;
        let graph = self.graph;
        let mut made: HashMap<NodeId, NodeId> = HashMap::new();
        let mut outputs: HashMap<OutputId, OutputId> = HashMap::new();
        for (&node, &given) in function.inputs.iter().zip(&call.arguments) {
            outputs.insert(OutputId { node, index: 0 }, given);
        }
        for (id, node) in function.body.nodes() {
            if std::ptr::eq(node.op, &ARGUMENT) {
                continue;
            }
            let inner = self.inner(&call, (function, node), &made, &outputs);
            let called = self.inlined(node.op.name, node.attrs.iter(), budget)?;
            let built = match called.filter(|_| depth < MAX_CALL_DEPTH) {
                Some(called) => self.inline(inner, &called, depth + 1, budget)?,
                None => self.copy(inner, node),
            };
            made.insert(id, built);
            for index in 0..node.outputs.len() as u32 {
                let from = OutputId { node: id, index };
                outputs.insert(from, OutputId { node: built, index });
            }
        }
        let op = match function.outputs.is_empty() {
            true => "NoOp",
            false => "IdentityN",
        };
        let mut builder = graph.op(op).name(&call.name).imported(call.node);
        for result in &function.outputs {
            builder = builder.input(self.output(&outputs, *result));
        }
        let runs = function.runs(Calls::Whole);
        let effects = runs.iter().filter_map(|id| made.get(id));
        for &id in effects.chain(&call.controls) {
            builder = builder.control(graph.operation(id));
        }
        Ok(builder.build().id())
    }

    /// The place of a body's node in the graph.
    fn inner(
        &self,
        call: &Call,
        (function, node): (&Function, &Node),
        made: &HashMap<NodeId, NodeId>,
        outputs: &HashMap<OutputId, OutputId>,
    ) -> Call {
        let name = |of: &str| format!("{}/{of}", call.name);
        // An argument has no node of its own any more.
        let stays = |with: &&Arc<str>| {
            let found = function.body.find(with).map(|id| function.body.node(id));
            found.is_some_and(|n| !std::ptr::eq(n.op, &ARGUMENT))
        };
        let colocation = node.colocation.iter().filter(stays);
        let colocation = colocation.map(|with| name(with).into());
        let mut controls: Vec<NodeId> = node
            .controls
            .iter()
            .filter_map(|c| made.get(c).copied())
            .collect();
        if node.op.effect != Effect::Pure {
            controls.extend(&call.controls);
        }
        Call {
            name: name(&node.name),
            node: ImportedNode {
                origin: call.node.origin.clone(),
                device: match node.device.is_empty() {
                    true => call.node.device.clone(),
                    false => node.device.clone(),
                },
                colocation: SmallVec::from_iter(colocation),
            },
            arguments: node
                .inputs
                .iter()
                .map(|i| self.output(outputs, *i).id())
                .collect(),
            controls,
        }
    }

    fn output(
        &self,
        outputs: &HashMap<OutputId, OutputId>,
        of: OutputId,
    ) -> thalweg_graph::Output<'d> {
        let found = outputs.get(&of);
        found.map_or(self.graph.invalid(), |id| self.graph.output(*id))
    }

    fn copy(&self, at: Call, node: &Node) -> NodeId {
        let graph = self.graph;
        let mut builder = graph.op(node.op.name).name(&at.name).imported(at.node);
        for input in at.arguments {
            builder = builder.input(graph.output(input));
        }
        for id in at.controls {
            builder = builder.control(graph.operation(id));
        }
        for (name, value) in node.attrs.iter() {
            builder = builder.attr(name, value.clone());
        }
        builder.build().id()
    }
}

/// The error of a call that cannot be inlined, as a problem of its node.
pub(super) fn problem(error: ImportError) -> Problem {
    match error {
        ImportError::Node {
            node, op, problem, ..
        } => Problem::Inline(format!("node '{node}' ({op}): {problem}")),
        other => Problem::Inline(other.to_string()),
    }
}
