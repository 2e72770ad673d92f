//! The naive interpreter, the reference for sessions: runs every needed node, one after the other, as the graph was
//! built. Without plan, arena, constant folding or threads.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thalweg_device::{Argument, Cpu, Op, Variable, evaluate};
use thalweg_graph::op::Effect;
use thalweg_graph::{GraphData, Node, NodeId, OutputId};
use thalweg_tensor::{DType, Tensor};

/// The interpreter's variables and kernels.
pub struct Interpreter {
    cpu: Cpu,
    kernels: HashMap<&'static str, &'static Op>,
    variables: BTreeMap<String, Arc<Variable>>,
    counters: BTreeMap<String, AtomicU64>,
}

/// Reason for a step without a result to compare with.
#[derive(Debug)]
pub enum NoResult {
    /// The rules for reads and updates of several variables contradict each other.
    Cycle,
    /// A node that failed.
    Failed(String),
}

impl Interpreter {
    #[allow(clippy::new_without_default, reason = "a test names what it makes")]
    pub fn new() -> Interpreter {
        Interpreter {
            cpu: Cpu::new(1),
            kernels: thalweg_ops::kernels(),
            variables: BTreeMap::new(),
            counters: BTreeMap::new(),
        }
    }

    /// Runs a step: the values of `fetches`, after `targets` have run.
    pub fn run(
        &mut self,
        data: &GraphData,
        fetches: &[OutputId],
        targets: &[NodeId],
        feeds: &[(OutputId, Tensor)],
    ) -> Result<Vec<Tensor>, NoResult> {
        let mut values: HashMap<OutputId, Tensor> = feeds.iter().cloned().collect();
        let fed: BTreeSet<OutputId> = values.keys().copied().collect();
        let unfed = fetches.iter().filter(|f| !fed.contains(f));
        let roots = unfed.map(|f| f.node).chain(targets.iter().copied());
        let needed = needed_nodes(data, roots, &fed);
        for id in execution_order(data, &needed, &fed).ok_or(NoResult::Cycle)? {
            let node = data.node(id);
            let is_fed = fed.contains(&OutputId { node: id, index: 0 });
            match node.op.effect {
                Effect::Handle => self.declare(node),
                Effect::Control => {}
                Effect::Feed if is_fed => {}
                _ if node.outputs.iter().any(|f| f.dtype == DType::Resource) => {}
                _ => {
                    let results = self.node(data, node, &values)?;
                    for (index, value) in (0..).zip(results) {
                        // Fed values keep precedence.
                        values.entry(OutputId { node: id, index }).or_insert(value);
                    }
                }
            }
        }
        Ok(fetches.iter().map(|f| values[f].clone()).collect())
    }

    fn declare(&mut self, node: &Node) {
        let (dtype, shape) = node.outputs[0].variable.clone().unwrap();
        let variable = || Arc::new(Variable::new(&node.name, dtype, shape));
        self.variables
            .entry(node.name.clone())
            .or_insert_with(variable);
    }

    fn node(
        &mut self,
        data: &GraphData,
        node: &Node,
        values: &HashMap<OutputId, Tensor>,
    ) -> Result<Vec<Tensor>, NoResult> {
        let random = node.op.effect == Effect::Random;
        let counter = random.then(|| &*self.counters.entry(node.name.clone()).or_default());
        let argument = |input: &OutputId| match handle(data, *input) {
            Some(h) => Argument::Variable(&self.variables[&data.node(h).name]),
            None => Argument::Value(&values[input]),
        };
        let arguments: Vec<Argument<'_>> = node.inputs.iter().map(argument).collect();

        let op = self.kernels[node.op.name];
        evaluate(&self.cpu, op, node, &arguments, counter)
            .map_err(|e| NoResult::Failed(format!("{}: {e}", node.name)))
    }
}

/// The node that made a handle; `None` for an output that is none.
fn handle(data: &GraphData, output: OutputId) -> Option<NodeId> {
    if data.fact(output)?.dtype != DType::Resource {
        return None;
    }
    let mut at = output.node;
    while data.node(at).op.effect != Effect::Handle {
        at = data.node(at).inputs.first()?.node;
    }
    Some(at)
}

/// The nodes that must run.
fn needed_nodes(
    data: &GraphData,
    roots: impl Iterator<Item = NodeId>,
    fed: &BTreeSet<OutputId>,
) -> BTreeSet<NodeId> {
    let mut needed = BTreeSet::new();
    let mut stack: Vec<NodeId> = roots.collect();
    while let Some(id) = stack.pop() {
        if needed.insert(id) {
            stack.extend(inputs_of(data, id, fed));
        }
    }
    needed
}

/// The data and control inputs of a node.
fn inputs_of(data: &GraphData, id: NodeId, fed: &BTreeSet<OutputId>) -> Vec<NodeId> {
    let node = data.node(id);
    let inputs = node.inputs.iter().filter(|i| !fed.contains(i));
    let all = inputs.map(|i| i.node).chain(node.controls.iter().copied());
    all.collect()
}

/// An order that keeps values, control inputs and the rules of variables: a read comes before an
/// update unless it depends on it, and updates come in the order of building. `None` where these
/// rules contradict each other.
fn execution_order(
    data: &GraphData,
    needed: &BTreeSet<NodeId>,
    fed: &BTreeSet<OutputId>,
) -> Option<Vec<NodeId>> {
    let mut waits: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    for &id in needed {
        waits.insert(id, inputs_of(data, id, fed).into_iter().collect());
    }
    // Numbers ascend along edges, so that one pass finds all that a node depends on.
    let mut upstream: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    for (&id, direct) in &waits {
        let mut all = direct.clone();
        direct.iter().for_each(|d| all.extend(&upstream[d]));
        upstream.insert(id, all);
    }
    let touching = |effect: Effect| -> Vec<(NodeId, NodeId)> {
        let of = |&id: &NodeId| {
            let node = data.node(id);
            let handle = handle(data, *node.inputs.first()?)?;
            (node.op.effect == effect).then_some((id, handle))
        };
        needed.iter().filter_map(of).collect()
    };
    let (reads, updates) = (touching(Effect::Read), touching(Effect::Write));
    for (i, &(update, variable)) in updates.iter().enumerate() {
        for &(read, _) in reads.iter().filter(|(_, v)| *v == variable) {
            if !upstream[&read].contains(&update) {
                waits.get_mut(&update)?.insert(read);
            }
        }
        for &(earlier, _) in updates[..i].iter().filter(|(_, v)| *v == variable) {
            waits.get_mut(&update)?.insert(earlier);
        }
    }
    let mut order = Vec::new();
    let mut done = BTreeSet::new();
    while done.len() < needed.len() {
        let ready = |id: &&NodeId| !done.contains(*id) && waits[*id].is_subset(&done);
        let next = *needed.iter().find(ready)?;
        done.insert(next);
        order.push(next);
    }
    Some(order)
}
