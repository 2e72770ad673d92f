//! One device's program: one walk along its order prepares kernels, gives outputs slots and slots memory, and records
//! the dependencies between instructions.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use thalweg_device::{Body, Cpu, Device, DeviceType, KernelError, Variable};
use thalweg_estimate::ListSchedule;
use thalweg_graph::flow::REGION;
use thalweg_graph::partition::{RECV, SEND, is_remote};
use thalweg_graph::simplify::{FEED, known};
use thalweg_graph::{Fact, GraphData, Node, NodeId, OutputId};
use thalweg_tensor::{ALIGNMENT, DType};

use super::uses::Uses;
use crate::bindings::Bindings;
use crate::error::SessionError;
use crate::error::{failed, memory};
use crate::kernels::{dtypes, find, no_kernel};
use crate::memory::{Arena, ArenaBlock};
use crate::order::{Accesses, Hazards, VariableId};
use crate::program::{Action, Dependents, Home, Instruction, Program, SlotPlan};
use crate::request::PlanContext;

/// Number of bytes by which an arena may grow for each further thread, so that independent instructions do not wait for
/// each other's memory: about the second-level cache of a core.
const SPARE_BYTES_PER_THREAD: usize = 1 << 20;

/// Number of bytes from which on values that go to another task or rank have tensors of their own.
pub(super) const MIN_SENT_BYTES: usize = 64 << 10;
/// Number of bytes from which on values that a stack or the caller of a function keeps have tensors of their own.
pub(super) const MIN_KEPT_BYTES: usize = 4 << 10;
/// The least bytes of a result of the step that lies in a tensor of its own: smaller ones are copied into the tensor of the
/// last step, which takes no memory.
const MIN_FETCHED_BYTES: usize = 256 << 10;

/// The reason that a variable's handle cannot be sent: it has no slot.
const HANDLE_SENT: &str = "it sends the handle of a variable, which does not leave its device: send \
                           the variable's value, or place what uses the handle with the variable";

pub(super) struct Builder<'a> {
    pub(super) context: PlanContext<'a>,
    pub(super) cpu: &'a Cpu,
    device: usize,
    pub(super) variables: Vec<Arc<Variable>>,
    pub(super) variable_of: FxHashMap<OutputId, VariableId>,
    pub(super) accesses: Accesses,
    /// By output: its slot.
    pub(super) slot_of: FxHashMap<OutputId, u32>,
    pub(super) slots: Vec<SlotPlan>,
    /// By slot: what is known of its life.
    pub(super) life: Vec<SlotUses>,
    pub(super) arena: Arena,
    pub(super) schedule: ListSchedule,
    /// By node that receives: memory that is set aside from the start of the step.
    landings: FxHashMap<NodeId, ArenaBlock>,
    pub(super) hazards: Hazards,
    /// By variable: the slots that hold a value of it.
    pub(super) held: Vec<Vec<u32>>,
    pub(super) instructions: Vec<Instruction>,
    pub(super) waits_for: Vec<Vec<u32>>,
    /// By node: the instruction that has run when the node has; none for one that needs none.
    pub(super) instruction_of: FxHashMap<NodeId, SmallVec<[u32; 2]>>,
    /// By output of a node that only passes its input on: the instructions that its users wait for beside the one that
    /// fills the slot, as the node waits for them.
    passed_on: FxHashMap<OutputId, SmallVec<[u32; 2]>>,
    pub(super) costs: Vec<u64>,
}

/// The uses of a slot, while the sequence is walked.
#[derive(Clone, Default)]
pub(super) struct SlotUses {
    pub(super) block: Option<ArenaBlock>,
    /// The instruction that fills it.
    pub(super) writer: Option<u32>,
    /// The instructions so far that use it.
    pub(super) users: SmallVec<[u32; 4]>,
    /// Number of uses that are still to come; a fetch is one that never comes.
    pub(super) left: u32,
}

/// A program, with the slots of its values.
pub(super) struct Built {
    pub(super) program: Program,
    pub(super) slot_of: FxHashMap<OutputId, u32>,
    pub(super) instruction_of: FxHashMap<NodeId, SmallVec<[u32; 2]>>,
}

impl Built {
    /// The slot of an output.
    pub(super) fn slot(&self, output: OutputId) -> Option<u32> {
        self.slot_of.get(&output).copied()
    }

    /// The instruction of a node that receives.
    pub(super) fn receive(&self, node: NodeId) -> u32 {
        self.instruction_of[&node][0]
    }

    /// The slot that a node that receives fills.
    pub(super) fn landing(&self, node: NodeId) -> Option<u32> {
        self.slot(OutputId { node, index: 0 })
    }

    /// Returns the number of instructions of nodes below this number. Their order is that of the nodes.
    pub(super) fn instructions_before(&self, node: u32) -> u32 {
        let instructions = &self.program.instructions;
        instructions.partition_point(|i| i.node.index() < node as usize) as u32
    }
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        context: PlanContext<'a>,
        device: usize,
        bindings: Bindings,
        accesses: Accesses,
    ) -> Builder<'a> {
        let threads = context.threads(device);
        Builder {
            context,
            cpu: context.devices[device].host(),
            device,
            hazards: Hazards::new(accesses.variables),
            held: vec![Vec::new(); accesses.variables],
            variables: bindings.variables,
            variable_of: bindings.variable_of,
            accesses,
            slot_of: FxHashMap::default(),
            slots: Vec::new(),
            life: Vec::new(),
            arena: Arena::new(ALIGNMENT, SPARE_BYTES_PER_THREAD * (threads - 1)),
            schedule: ListSchedule::new(threads),
            landings: FxHashMap::default(),
            instructions: Vec::new(),
            waits_for: Vec::new(),
            instruction_of: FxHashMap::default(),
            passed_on: FxHashMap::default(),
            costs: Vec::new(),
        }
    }

    /// Builds the program that runs the nodes of `graph` in this order.
    pub(super) fn build(
        mut self,
        graph: GraphData,
        order: &[NodeId],
        (uses, fetched): (Uses, &[OutputId]),
    ) -> Result<Built, SessionError> {
        self.set_landings_aside(&graph)?;
        for &id in order {
            self.node(&graph, id, &uses)?;
        }
        // The results of a function, or of the step.
        let min_bytes = match self.context.path.is_empty() {
            true => MIN_FETCHED_BYTES,
            false => MIN_KEPT_BYTES,
        };
        for output in fetched {
            if let Some(&slot) = self.slot_of.get(output) {
                self.own_tensor(slot, min_bytes);
            }
        }
        let mut waits: Vec<u32> = self.waits_for.iter().map(|w| w.len() as u32).collect();
        for (wait, instruction) in waits.iter_mut().zip(&self.instructions) {
            // A receive waits for its send too.
            let receives = matches!(
                instruction.action,
                Action::Receive | Action::ReceiveRemote { .. }
            );
            *wait += u32::from(receives);
        }
        Ok(Built {
            program: Program {
                device: self.device,
                arena: self.arena.len(),
                costs: self.costs,
                dependents: Dependents::reversed(&self.waits_for),
                waits,
                instructions: self.instructions,
                slots: self.slots,
                gpu: None,
                graph,
            },
            slot_of: self.slot_of,
            instruction_of: self.instruction_of,
        })
    }

    /// Takes memory for all received values before anything else does: a value may arrive at any time.
    fn set_landings_aside(&mut self, graph: &GraphData) -> Result<(), SessionError> {
        let lands = |n: &Node| std::ptr::eq(n.op, &RECV) && !is_remote(n);
        for (id, node) in graph.nodes().filter(|(_, n)| lands(n)) {
            let fact = &node.outputs[0];
            match landing_len(fact) {
                None | Some(0) => {}
                Some(n) if self.has_room(Some(n), fact.dtype.size()) => {
                    let block = self
                        .arena
                        .allocate(n * fact.dtype.size(), 0, &mut Vec::new());
                    self.landings.insert(id, block);
                }
                Some(_) => return Err(memory(self.on(), node, fact.dtype, fact.shape.clone())),
            }
        }
        Ok(())
    }

    pub(super) fn slot(
        &mut self,
        output: OutputId,
        dtype: DType,
        len: usize,
        home: Home,
        left: u32,
    ) -> u32 {
        let slot = self.slots.len() as u32;
        self.slots.push(SlotPlan { dtype, len, home });
        self.life.push(SlotUses {
            left,
            ..SlotUses::default()
        });
        self.slot_of.insert(output, slot);
        slot
    }

    fn node(&mut self, graph: &GraphData, id: NodeId, uses: &Uses) -> Result<(), SessionError> {
        let node = graph.node(id);
        let outputs: SmallVec<[OutputId; 2]> = (0..node.outputs.len() as u32)
            .map(|index| OutputId { node: id, index })
            .collect();
        let left = |o: &OutputId| uses.of(*o);
        if known(node) {
            let mut slots = SmallVec::new();
            for (o, fact) in outputs.iter().zip(&node.outputs) {
                if let Some(value) = &fact.value {
                    let home = Home::Constant(value.clone());
                    slots.push(self.slot(*o, fact.dtype, value.len(), home, left(o)));
                }
            }
            if !node.controls.is_empty() {
                // Its users wait for the nodes that it waits for: an instruction that does nothing.
                let action = Action::Run {
                    run: Box::new(|_| Ok(())),
                    scratch: (0, 0),
                    own: false,
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
        if std::ptr::eq(node.op, &SEND) {
            return self.send(id, node);
        }
        if std::ptr::eq(node.op, &RECV) {
            self.receive(id, node, left(&outputs[0]));
            return Ok(());
        }
        if std::ptr::eq(node.op, &REGION) {
            let lefts: SmallVec<[u32; 2]> = outputs.iter().map(left).collect();
            return self.region(graph, id, &outputs, &lefts);
        }
        let (op, kernel) = find(self.context.kernels, DeviceType::Cpu, node).ok_or_else(|| {
            no_kernel(
                self.context.kernels,
                node,
                dtypes(graph, node),
                DeviceType::Cpu,
            )
        })?;
        match kernel.body {
            // A node that waits for one that does nothing waits for the nodes that the latter waits for.
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
                self.pass_on(id, node, outputs[0]);
                self.free_if_unused(slot);
                Ok(())
            }
            Body::View if self.variable_of.contains_key(&outputs[0]) => {
                self.pass_on(id, node, outputs[0]);
                Ok(())
            }
            Body::Read if self.is_handle(node) => {
                self.read(id, node, outputs[0], left(&outputs[0]))
            }
            Body::Launch(_) | Body::Host | Body::Functions => Err(no_kernel(
                self.context.kernels,
                node,
                dtypes(graph, node),
                DeviceType::Cpu,
            )),
            // With a handle that is known only in the step, such as the result of a branch.
            Body::Compute(_) | Body::Tensors(_) | Body::View | Body::Read => {
                let lefts: SmallVec<[u32; 2]> = outputs.iter().map(left).collect();
                self.compute(graph, id, op, kernel, &outputs, &lefts)
            }
        }
    }

    /// The device that runs the program.
    pub(super) fn on(&self) -> &'a Device {
        &self.context.devices[self.device]
    }

    fn is_handle(&self, node: &Node) -> bool {
        node.inputs
            .first()
            .is_some_and(|i| self.variable_of.contains_key(i))
    }

    /// Returns the instructions that a node's control inputs stand for.
    pub(super) fn after(&self, node: &Node) -> SmallVec<[u32; 2]> {
        let of = |c: &NodeId| self.instruction_of.get(c).into_iter().flatten().copied();
        distinct(node.controls.iter().flat_map(of).collect())
    }

    /// Records the instructions that a node stands for which passes its input on: it has no instruction.
    fn pass_on(&mut self, id: NodeId, node: &Node, output: OutputId) {
        let inherited = self.passed_on.get(&node.inputs[0]);
        let mut passed = self.after(node);
        passed.extend(inherited.into_iter().flatten().copied());
        let passed = distinct(passed);
        let mut after = passed.clone();
        let slot = self.slot_of.get(&output);
        after.extend(slot.and_then(|&s| self.life[s as usize].writer));
        self.instruction_of.insert(id, after);
        if !passed.is_empty() {
            self.passed_on.insert(output, passed);
        }
    }

    /// Returns the instructions that a node waits for: its control inputs', and those of its inputs.
    pub(super) fn waits(&self, node: &Node) -> Vec<u32> {
        let mut waits = self.after(node).to_vec();
        for input in &node.inputs {
            let slot = self.slot_of.get(input);
            waits.extend(slot.and_then(|&s| self.life[s as usize].writer));
            waits.extend(self.passed_on.get(input).into_iter().flatten());
        }
        waits
    }

    pub(super) fn dims_known(&self, graph: &GraphData, node: &Node) -> bool {
        let known = |o: &OutputId| match self.slot_of.get(o) {
            Some(&s) => self.slots[s as usize].len != usize::MAX,
            None => true,
        };
        let host_known = |(i, o): (usize, &OutputId)| {
            !node.is_host_input(i) || graph.fact(*o).is_some_and(|f| f.value.is_some())
        };
        node.outputs
            .iter()
            .all(|f| f.shape.is_known() && f.dtype.size() > 0)
            && node.inputs.iter().all(known)
            && node.inputs.iter().enumerate().all(host_known)
            && node.inputs.iter().all(|o| {
                graph.fact(*o).is_some_and(|f| match f.dtype {
                    DType::Resource => self.variable_of.contains_key(o),
                    _ => f.shape.is_known(),
                })
            })
    }

    fn send(&mut self, id: NodeId, node: &Node) -> Result<(), SessionError> {
        let mut waits = self.waits(node);
        let slot = |i: &OutputId| {
            let slot = self.slot_of.get(i).copied();
            slot.ok_or_else(|| failed(node, KernelError::Invalid(HANDLE_SENT.to_owned())))
        };
        let inputs = node.inputs.iter().map(slot);
        let inputs: SmallVec<[u32; 4]> = inputs.collect::<Result<_, SessionError>>()?;
        let channel = node.attrs.int("channel");
        if is_remote(node) {
            (inputs.iter()).for_each(|&s| self.own_tensor(s, MIN_SENT_BYTES));
            let action = Action::SendRemote { channel };
            self.emit(id, node, action, inputs, SmallVec::new(), &mut waits, 1000);
            return Ok(());
        }
        let channel = usize::try_from(channel).unwrap_or(0);
        let bytes = inputs.iter().map(|&s| {
            let plan = &self.slots[s as usize];
            match plan.len {
                usize::MAX => 0,
                n => n.saturating_mul(plan.dtype.size()),
            }
        });
        // A copy moves some ten bytes in a nanosecond.
        let cost = 50 + bytes.fold(0usize, usize::saturating_add) as u64 / 10;
        let action = Action::Send { channel };
        self.emit(id, node, action, inputs, SmallVec::new(), &mut waits, cost);
        Ok(())
    }

    fn receive(&mut self, id: NodeId, node: &Node, left: u32) {
        let fact = &node.outputs[0];
        let output = OutputId { node: id, index: 0 };
        if is_remote(node) {
            let channel = node.attrs.int("channel");
            // A known shape is checked when the value arrives.
            let len = landing_len(fact).unwrap_or(usize::MAX);
            let slot = self.slot(output, fact.dtype, len, Home::Held, left);
            let (action, outputs) = (
                Action::ReceiveRemote { channel },
                SmallVec::from_elem(slot, 1),
            );
            let none = SmallVec::new();
            self.emit(id, node, action, none, outputs, &mut Vec::new(), 20);
            return;
        }
        let slot = match (self.landings.remove(&id), landing_len(fact)) {
            (Some(block), Some(n)) => {
                let slot = self.slot(output, fact.dtype, n, Home::Arena(block.offset), left);
                self.life[slot as usize].block = Some(block);
                slot
            }
            (None, Some(0)) => self.slot(output, fact.dtype, 0, Home::Arena(0), left),
            _ => self.slot(output, fact.dtype, usize::MAX, Home::Held, left),
        };
        let (action, outputs) = (Action::Receive, SmallVec::from_elem(slot, 1));
        self.emit(
            id,
            node,
            action,
            SmallVec::new(),
            outputs,
            &mut Vec::new(),
            20,
        );
    }
}

/// Removes duplicates: nodes that run nothing pass on the instructions that they wait for, and would otherwise pass on
/// twice as many at every fork that closes again.
fn distinct(mut instructions: SmallVec<[u32; 2]>) -> SmallVec<[u32; 2]> {
    instructions.sort_unstable();
    instructions.dedup();
    instructions
}

/// Returns the number of received elements, where they are stored in the arena.
fn landing_len(fact: &Fact) -> Option<usize> {
    let in_arena = fact.shape.is_known() && fact.dtype.size() > 0;
    fact.shape.elements().filter(|_| in_arena)
}
