//! From a graph and a request to a plan.

mod emit;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use smallvec::SmallVec;
use thalweg_device::{
    Argument, Body, Cpu, DeviceType, Environment, Kernel, KernelError, Op, Variable, evaluate,
};
use thalweg_graph::op::Effect;
use thalweg_graph::simplify::{FEED, Simplified, Simplify, known, simplify};
use thalweg_graph::{DType, Fact, GraphData, Node, NodeId, OutputId, Tensor};

use super::memory::{Arena, Block};
use super::order::{Accesses, Hazards, VariableId, sequence};
use super::{Action, Dependents, FetchPlan, Home, Instruction, Plan, SlotPlan};
use crate::error::SessionError;
use crate::fetch::Fetch;
use crate::store::Store;

/// What a plan is made for.
pub struct Request<'a> {
    /// What is fed, with the dtype and shape of each.
    pub feeds: &'a [(OutputId, Fact)],
    pub(crate) fetches: &'a [Fetch],
    /// Whether constants are folded and equal nodes shared.
    pub optimise: bool,
}

/// Makes the plan that answers `request`.
///
/// # Errors
/// A missing feed, shapes that do not fit, a node without a kernel.
pub fn compile(
    data: &GraphData,
    request: &Request<'_>,
    kernels: &HashMap<&'static str, &'static Op>,
    cpu: &Cpu,
    store: &Store,
) -> Result<Plan, SessionError> {
    let mut values = Vec::new();
    let mut targets = Vec::new();
    for fetch in request.fetches {
        match *fetch {
            Fetch::Value(output) => values.push(output),
            Fetch::Run(node) => targets.push(node),
        }
    }
    let stop = AtomicBool::new(false);
    let environment = Environment { cpu, stop: &stop };
    let fold = |node: &Node, inputs: &[&Tensor]| {
        let arguments: SmallVec<[Argument<'_>; 4]> =
            inputs.iter().map(|t| Argument::Value(t)).collect();
        let op = kernels.get(node.op.name)?;
        evaluate(environment, op, node, &arguments, None).ok()
    };
    let simplified = simplify(
        data,
        request.feeds,
        &values,
        &targets,
        &Simplify {
            evaluate: request.optimise.then_some(&fold),
            share: request.optimise,
        },
    )
    .map_err(|e| SessionError::from(vec![e]))?;
    let mut compiler = Compiler::new(&simplified, kernels, cpu, store)?;
    compiler.run(&simplified)?;
    compiler.finish(simplified, request)
}

struct Compiler<'a> {
    kernels: &'a HashMap<&'static str, &'static Op>,
    cpu: &'a Cpu,
    store: &'a Store,
    variables: Vec<Arc<Variable>>,
    variable_of: HashMap<OutputId, VariableId>,
    accesses: Accesses,
    sequence: Vec<NodeId>,
    /// By output: its slot.
    slot_of: HashMap<OutputId, u32>,
    /// By slot: the outputs that lie in it and are still to be used, and how often.
    slots: Vec<SlotPlan>,
    life: Vec<Life>,
    arena: Arena,
    hazards: Hazards,
    /// By variable: the slots that hold a value of it.
    held: Vec<Vec<u32>>,
    instructions: Vec<Instruction>,
    waits_for: Vec<Vec<u32>>,
    /// By node: the instruction that has run when the node has; none for one that needs none.
    instruction_of: HashMap<NodeId, SmallVec<[u32; 2]>>,
    cost: u64,
}

/// What is known of a slot's life while the sequence is walked.
#[derive(Clone, Default)]
struct Life {
    block: Option<Block>,
    /// The instruction that fills it.
    writer: Option<u32>,
    /// The instructions so far that use it.
    users: SmallVec<[u32; 4]>,
    /// How many uses are still to come; a fetch is one that never comes.
    left: u32,
}

impl<'a> Compiler<'a> {
    fn new(
        simplified: &Simplified,
        kernels: &'a HashMap<&'static str, &'static Op>,
        cpu: &'a Cpu,
        store: &'a Store,
    ) -> Result<Compiler<'a>, SessionError> {
        let graph = &simplified.graph;
        let mut variables: Vec<Arc<Variable>> = Vec::new();
        let mut by_name: HashMap<(String, String), VariableId> = HashMap::new();
        let mut variable_of: HashMap<OutputId, VariableId> = HashMap::new();
        let shares = |id: NodeId| {
            let node = graph.node(id);
            find(kernels, node).is_some_and(|(_, k)| matches!(k.body, Body::View))
        };
        for (id, node) in graph.nodes() {
            if node.op.effect == Effect::Feed && !std::ptr::eq(node.op, &FEED) {
                let fact = &node.outputs[0];
                return Err(SessionError::MissingFeed {
                    node: node.name.clone(),
                    dtype: fact.dtype,
                    shape: fact.shape.clone(),
                    origin: node.origin.clone(),
                });
            }
            let output = OutputId { node: id, index: 0 };
            if node.op.effect == Effect::Handle {
                let shared = node.attrs.str("shared_name");
                let name = if shared.is_empty() {
                    &node.name
                } else {
                    shared
                };
                let key = (node.attrs.str("container").to_owned(), name.to_owned());
                let (dtype, shape) = node.outputs[0]
                    .variable
                    .clone()
                    .unwrap_or((DType::F32, Default::default()));
                let number = *by_name.entry(key).or_insert_with_key(|(container, name)| {
                    variables.push(store.variable(container, name, dtype, &shape));
                    variables.len() - 1
                });
                let variable = &variables[number];
                if variable.dtype() != dtype || variable.shape().merge(&shape).is_none() {
                    let source = KernelError::Variable {
                        variable: variable.name().to_owned(),
                        expected_dtype: dtype,
                        expected: shape,
                        found_dtype: variable.dtype(),
                        found: variable.shape().clone(),
                    };
                    return Err(failed(node, source));
                }
                variable_of.insert(output, number);
            } else if let Some(&v) = node.inputs.first().and_then(|i| variable_of.get(i))
                && shares(id)
            {
                variable_of.insert(output, v);
            }
        }
        let accesses = Accesses::new(graph, &variable_of, &shares);
        let sequence = sequence(graph, &accesses);
        if let Some(stuck) = graph.ids().find(|_| sequence.len() < graph.len()) {
            let done: std::collections::HashSet<_> = sequence.iter().collect();
            let node = graph.ids().find(|id| !done.contains(id)).unwrap_or(stuck);
            return Err(SessionError::Cycle {
                node: graph.node(node).name.clone(),
            });
        }
        Ok(Compiler {
            kernels,
            cpu,
            store,
            hazards: Hazards::new(accesses.variables),
            held: vec![Vec::new(); accesses.variables],
            variables,
            variable_of,
            accesses,
            sequence,
            slot_of: HashMap::new(),
            slots: Vec::new(),
            life: Vec::new(),
            arena: Arena::default(),
            instructions: Vec::new(),
            waits_for: Vec::new(),
            instruction_of: HashMap::new(),
            cost: 0,
        })
    }

    fn run(&mut self, simplified: &Simplified) -> Result<(), SessionError> {
        let graph = &simplified.graph;
        // Uses to come, by output; a fetch is one.
        let mut uses: HashMap<OutputId, u32> = HashMap::new();
        for (_, node) in graph.nodes() {
            for &input in &node.inputs {
                *uses.entry(input).or_default() += 1;
            }
        }
        for &fetch in &simplified.fetches {
            *uses.entry(fetch).or_default() += 1;
        }
        for id in std::mem::take(&mut self.sequence) {
            self.node(graph, id, &uses)?;
        }
        Ok(())
    }

    fn slot(&mut self, output: OutputId, dtype: DType, len: usize, home: Home, left: u32) -> u32 {
        let slot = self.slots.len() as u32;
        self.slots.push(SlotPlan { dtype, len, home });
        self.life.push(Life {
            left,
            ..Life::default()
        });
        self.slot_of.insert(output, slot);
        slot
    }

    fn node(
        &mut self,
        graph: &GraphData,
        id: NodeId,
        uses: &HashMap<OutputId, u32>,
    ) -> Result<(), SessionError> {
        let node = graph.node(id);
        let outputs: SmallVec<[OutputId; 2]> = (0..node.outputs.len() as u32)
            .map(|index| OutputId { node: id, index })
            .collect();
        let left = |o: &OutputId| uses.get(o).copied().unwrap_or(0);
        if known(node) {
            let mut slots = SmallVec::new();
            for (o, fact) in outputs.iter().zip(&node.outputs) {
                if let Some(value) = &fact.value {
                    let home = Home::Constant(value.clone());
                    slots.push(self.slot(*o, fact.dtype, value.len(), home, left(o)));
                }
            }
            if !node.controls.is_empty() {
                // Who uses it waits for what it waits for: an instruction that does nothing.
                let action = Action::Run {
                    run: Box::new(|_| Ok(())),
                    scratch: (0, 0),
                };
                let mut waits = self.after(node).to_vec();
                self.emit(id, node, action, SmallVec::new(), slots, &mut waits, 0);
            }
            return Ok(());
        }
        if std::ptr::eq(node.op, &FEED) {
            let fact = &node.outputs[0];
            let len = fact.shape.elements().unwrap_or(0);
            self.slot(outputs[0], fact.dtype, len, Home::Held, left(&outputs[0]));
            return Ok(());
        }
        let (op, kernel) = find(self.kernels, node).ok_or_else(|| no_kernel(graph, node))?;
        match kernel.body {
            // Who waits for a node that does nothing waits for what that waits for.
            Body::Handle | Body::Nothing => {
                let after = self.after(node);
                self.instruction_of.insert(id, after);
                Ok(())
            }
            Body::View if self.dims_known(graph, node) && !self.is_handle(node) => {
                let slot = self.slot_of[&node.inputs[0]];
                self.life[slot as usize].left += left(&outputs[0]);
                // The view itself was one use.
                self.life[slot as usize].left -= 1;
                self.slot_of.insert(outputs[0], slot);
                let mut after = self.after(node);
                after.extend(self.life[slot as usize].writer);
                self.instruction_of.insert(id, after);
                self.free_if_unused(slot);
                Ok(())
            }
            Body::View if self.is_handle(node) => {
                let after = self.after(node);
                self.instruction_of.insert(id, after);
                Ok(())
            }
            Body::Read => self.read(id, node, outputs[0], left(&outputs[0])),
            Body::Compute(_) | Body::View => {
                let lefts: SmallVec<[u32; 2]> = outputs.iter().map(left).collect();
                self.compute(graph, id, op, kernel, &outputs, &lefts)
            }
        }
    }

    fn is_handle(&self, node: &Node) -> bool {
        node.inputs
            .first()
            .is_some_and(|i| self.variable_of.contains_key(i))
    }

    /// The instructions that a node's control inputs stand for.
    fn after(&self, node: &Node) -> SmallVec<[u32; 2]> {
        let of = |c: &NodeId| self.instruction_of.get(c).cloned().unwrap_or_default();
        node.controls.iter().flat_map(of).collect()
    }

    fn dims_known(&self, graph: &GraphData, node: &Node) -> bool {
        let known = |o: &OutputId| match self.slot_of.get(o) {
            Some(&s) => self.slots[s as usize].len != usize::MAX,
            None => true,
        };
        let host_known = |(i, o): (usize, &OutputId)| {
            !node.is_host_input(i) || graph.fact(*o).is_some_and(|f| f.value.is_some())
        };
        node.outputs
            .iter()
            .all(|f| f.shape.is_known() && f.dtype != DType::String)
            && node.inputs.iter().all(known)
            && node.inputs.iter().enumerate().all(host_known)
            && node.inputs.iter().all(|o| {
                graph
                    .fact(*o)
                    .is_some_and(|f| f.dtype == DType::Resource || f.shape.is_known())
            })
    }

    fn finish(self, simplified: Simplified, request: &Request<'_>) -> Result<Plan, SessionError> {
        let mut values = simplified.fetches.iter();
        let mut fetches = Vec::with_capacity(request.fetches.len());
        for fetch in request.fetches {
            fetches.push(match fetch {
                Fetch::Run(_) => None,
                Fetch::Value(_) => {
                    match values.next().and_then(|o| Some((o, self.slot_of.get(o)?))) {
                        Some((o, &slot)) => Some(FetchPlan {
                            slot,
                            dims: simplified.graph.fact(*o).and_then(|f| f.shape.to_dims()),
                        }),
                        None => None,
                    }
                }
            });
        }
        let feed_slot = |id: &NodeId| {
            self.slot_of
                .get(&OutputId {
                    node: *id,
                    index: 0,
                })
                .copied()
        };
        let feeds = simplified
            .feeds
            .iter()
            .map(|f| f.as_ref().and_then(feed_slot))
            .collect();
        Ok(Plan {
            feeds,
            fetches,
            arena: self.arena.len(),
            cost: self.cost,
            dependents: Dependents::reversed(&self.waits_for),
            waits: self.waits_for.iter().map(|w| w.len() as u32).collect(),
            instructions: self.instructions,
            slots: self.slots,
            graph: simplified.graph,
        })
    }
}

/// Stands for the slot of an input that lies nowhere: a variable's handle.
pub(crate) const NO_SLOT: u32 = u32::MAX;

fn find(
    kernels: &HashMap<&'static str, &'static Op>,
    node: &Node,
) -> Option<(&'static Op, &'static Kernel)> {
    let op = *kernels.get(node.op.name)?;
    let kernel = op.kernels.iter().find(|k| k.takes(DeviceType::Cpu, node))?;
    Some((op, kernel))
}

fn failed(node: &Node, source: KernelError) -> SessionError {
    SessionError::Kernel {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        source,
    }
}

fn no_kernel(graph: &GraphData, node: &Node) -> SessionError {
    let inputs = node.inputs.iter().filter_map(|&i| graph.fact(i));
    let dtypes: Vec<String> = inputs
        .chain(&node.outputs)
        .map(|f| f.dtype.to_string())
        .collect();
    SessionError::NoKernel {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        device: DeviceType::Cpu.to_string(),
        dtypes: dtypes.join(", "),
    }
}
