//! Emits instructions one after the other: slots, memory, dependencies.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::{
    Body, Kernel, KernelError, Op, Operand, Prepare, PrepareFn, Prepared, Variable,
};
use thalweg_estimate::PARALLEL_INSTRUCTION_NS;
use thalweg_graph::op::Effect;
use thalweg_graph::{Fact, GraphData, Node, NodeId, OutputId};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Shape};

use super::NO_SLOT;
use super::builder::{Builder, MIN_KEPT_BYTES, MIN_SENT_BYTES};
use crate::error::SessionError;
use crate::error::failed;
use crate::error::memory;
use crate::error::panicked;
use crate::memory::{ArenaBlock, LastUse};
use crate::program::{Action, Home, Instruction};
use crate::region::Region;

impl Builder<'_> {
    pub(super) fn read(
        &mut self,
        id: NodeId,
        node: &Node,
        output: OutputId,
        left: u32,
    ) -> Result<(), SessionError> {
        let fact = &node.outputs[0];
        let len = fact.shape.elements().unwrap_or(usize::MAX);
        let variable = self.variable_of[&node.inputs[0]];
        let mut waits = self.waits(node);
        let slot = self.slot(output, fact.dtype, len, Home::Held, left);
        self.held[variable].push(slot);
        let action = Action::Read {
            shape: fact.shape.clone(),
        };
        self.emit(
            id,
            node,
            action,
            SmallVec::new(),
            SmallVec::from_elem(slot, 1),
            &mut waits,
            20,
        );
        Ok(())
    }

    /// Emits a node with a kernel: prepared now, if all that it needs is known, or else in the step.
    pub(super) fn compute(
        &mut self,
        graph: &GraphData,
        id: NodeId,
        op: &'static Op,
        kernel: &'static Kernel,
        outputs: &[OutputId],
        left: &[u32],
    ) -> Result<(), SessionError> {
        let node = graph.node(id);
        let mut waits = self.waits(node);
        let inputs = self.inputs(node);
        let prepare = match kernel.body {
            Body::Compute(prepare) if self.dims_known(graph, node) => prepare,
            _ => {
                let node = node.clone();
                let action = Action::Late { op, node };
                return self.held(graph, id, action, outputs, left);
            }
        };
        let operands: SmallVec<[Operand; 2]> = node.outputs.iter().map(operand).collect();
        let prepared = self.prepared(graph, node, prepare, &operands)?;
        let mut output_slots: SmallVec<[u32; 2]> = SmallVec::new();
        for (i, (o, operand)) in outputs.iter().zip(&operands).enumerate() {
            let replaced = self.replaced(kernel, i, &inputs, operand);
            output_slots.push(self.place(*o, left[i], operand, replaced, &mut waits));
        }
        let scratch = self.scratch(prepared.scratch, &mut waits);
        let action = Action::Run {
            scratch: scratch.map_or((0, 0), |b| (b.offset, prepared.scratch)),
            run: prepared.run,
            own: false,
        };
        self.emit(
            id,
            node,
            action,
            inputs,
            output_slots,
            &mut waits,
            prepared.cost,
        );
        if let Some(block) = scratch {
            let at = self.instructions.len() as u32 - 1;
            self.free(block, SmallVec::from_elem(at, 1));
        }
        Ok(())
    }

    /// Prepares a node's kernel, if there is room for these outputs and for its scratch memory.
    fn prepared(
        &self,
        graph: &GraphData,
        node: &Node,
        prepare: PrepareFn,
        outputs: &[Operand],
    ) -> Result<Prepared, SessionError> {
        let inputs: SmallVec<[Operand; 4]> = node
            .inputs
            .iter()
            .filter_map(|&o| graph.fact(o))
            .map(operand)
            .collect();
        for (operand, fact) in outputs.iter().zip(&node.outputs) {
            if !self.has_room(checked_elements(&operand.dims), operand.dtype.size()) {
                return Err(memory(self.on(), node, fact.dtype, fact.shape.clone()));
            }
        }
        let wanted = Prepare {
            cpu: self.cpu,
            node,
            inputs: &inputs,
            outputs,
        };
        let prepared = catch_unwind(AssertUnwindSafe(|| prepare(&wanted)))
            .map_err(|panic| panicked(node, &*panic))?
            .map_err(|source| failed(node, source))?;
        if !self.has_room(Some(prepared.scratch), 1) {
            let bytes = Shape::known(&[prepared.scratch]);
            return Err(memory(self.on(), node, DType::U8, bytes));
        }
        Ok(prepared)
    }

    /// Returns the slot of an input that ends here and whose memory output `i` of a kernel can take.
    fn replaced(&self, kernel: &Kernel, i: usize, inputs: &[u32], output: &Operand) -> Option<u32> {
        let places = kernel.in_place.iter().filter(|(_, out)| *out == i);
        // One whose memory was taken has none any more.
        places
            .filter_map(|(input, _)| inputs.get(*input).copied())
            .find(|&s| self.ends_here(s, inputs) && self.fits(s, output))
    }

    /// Gives an output of the next instruction a slot, in the place of an input's or with memory of
    /// its own.
    fn place(
        &mut self,
        output: OutputId,
        left: u32,
        operand: &Operand,
        replaced: Option<u32>,
        waits: &mut Vec<u32>,
    ) -> u32 {
        let len = operand.elements();
        let block = match replaced {
            Some(s) => {
                let life = &mut self.life[s as usize];
                waits.extend(&life.users);
                life.block.take()
            }
            None if len == 0 => None,
            None => {
                let start = self.schedule.start(waits);
                let bytes = len * operand.dtype.size();
                Some(self.arena.allocate(bytes, start, waits))
            }
        };
        let home = Home::Arena(block.map_or(0, |b| b.offset));
        let slot = self.slot(output, operand.dtype, len, home, left);
        let life = &mut self.life[slot as usize];
        life.block = block;
        life.writer = Some(self.instructions.len() as u32);
        slot
    }

    /// The scratch memory of the next instruction, if it needs any.
    fn scratch(&mut self, bytes: usize, waits: &mut Vec<u32>) -> Option<ArenaBlock> {
        if bytes == 0 {
            return None;
        }
        let start = self.schedule.start(waits);
        Some(self.arena.allocate(bytes, start, waits))
    }

    /// Gives a block back that these instructions touched.
    fn free(&mut self, block: ArenaBlock, instructions: SmallVec<[u32; 4]>) {
        let done = self.schedule.latest(&instructions);
        self.arena.free(block, LastUse { instructions, done });
    }

    /// `true` if the arena stays within an address space when so many elements are added.
    pub(super) fn has_room(&self, elements: Option<usize>, size: usize) -> bool {
        let bytes = elements.and_then(|n| n.checked_mul(size));
        let total = bytes.and_then(|b| b.checked_add(self.arena.len()));
        total.is_some_and(|t| t < isize::MAX as usize / 2)
    }

    /// `true` if the only use that a slot of the arena still has is the one of these inputs.
    fn ends_here(&self, slot: u32, inputs: &[u32]) -> bool {
        slot != NO_SLOT
            && !self.context.separate_memory
            && self.life[slot as usize].left == 1
            && self.life[slot as usize].block.is_some()
            && inputs.iter().filter(|&&s| s == slot).count() == 1
    }

    fn fits(&self, slot: u32, output: &Operand) -> bool {
        let plan = &self.slots[slot as usize];
        plan.dtype == output.dtype && plan.len == output.elements()
    }

    /// Returns the slots of a node's inputs. A handle has none; the instruction's `variables` have its variable.
    fn inputs(&self, node: &Node) -> SmallVec<[u32; 4]> {
        let slot = |o: &OutputId| self.slot_of.get(o).copied().unwrap_or(NO_SLOT);
        node.inputs.iter().map(slot).collect()
    }

    /// Emits the node that stands for a region.
    pub(super) fn region(
        &mut self,
        graph: &GraphData,
        id: NodeId,
        outputs: &[OutputId],
        left: &[u32],
    ) -> Result<(), SessionError> {
        let node = graph.node(id);
        let function = node.attrs.func("f").and_then(|f| graph.function(&f.name));
        let missing = || failed(node, KernelError::Argument("the graph of a region"));
        let region = Region::new(function.ok_or_else(missing)?, self.context)?;
        let action = Action::Region(Box::new(region));
        self.held(graph, id, action, outputs, left)
    }

    /// Emits an instruction that allocates its output tensors itself.
    fn held(
        &mut self,
        graph: &GraphData,
        id: NodeId,
        action: Action,
        outputs: &[OutputId],
        left: &[u32],
    ) -> Result<(), SessionError> {
        let node = graph.node(id);
        let (mut waits, inputs) = (self.waits(node), self.inputs(node));
        let keeps = node.inputs.iter().any(|i| {
            let fact = graph.fact(*i);
            fact.is_some_and(|f| f.dtype.is_handle())
        });
        if node.op.effect == Effect::Collective {
            (inputs.iter()).for_each(|&slot| self.own_tensor(slot, MIN_SENT_BYTES));
        } else if keeps {
            (inputs.iter()).for_each(|&slot| self.own_tensor(slot, MIN_KEPT_BYTES));
        }
        let mut output_slots = SmallVec::new();
        for (i, (o, fact)) in outputs.iter().zip(&node.outputs).enumerate() {
            // A shape that is known all the same is checked when it runs.
            let plain = fact.dtype.size() > 0;
            let len = fact.shape.elements().filter(|_| plain);
            let len = len.unwrap_or(usize::MAX);
            output_slots.push(self.slot(*o, fact.dtype, len, Home::Held, left[i]));
        }
        self.emit(id, node, action, inputs, output_slots, &mut waits, 1000);
        Ok(())
    }

    /// Lets a value of at least so many bytes lie in a tensor of its own, so that it need not be copied out of the arena:
    /// it goes to another task or rank, to a stack, or to the caller of a function or of the step.
    pub(super) fn own_tensor(&mut self, slot: u32, min_bytes: usize) {
        let Some(plan) = self.slots.get_mut(slot as usize) else {
            return;
        };
        let large = plan.len.saturating_mul(plan.dtype.size()) >= min_bytes;
        let writer = self.life[slot as usize].writer;
        if let (true, Home::Arena(_), Some(writer)) = (large, &plan.home, writer)
            && let Action::Run { own, .. } = &mut self.instructions[writer as usize].action
        {
            plan.home = Home::Own;
            *own = true;
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one instruction")]
    pub(super) fn emit(
        &mut self,
        id: NodeId,
        node: &Node,
        action: Action,
        inputs: SmallVec<[u32; 4]>,
        outputs: SmallVec<[u32; 2]>,
        waits: &mut Vec<u32>,
        cost: u64,
    ) {
        let at = self.instructions.len() as u32;
        let (uses, updates) = (
            &self.accesses.uses[id.index()],
            &self.accesses.updates[id.index()],
        );
        self.hazards.visit(at, uses, updates, waits);
        self.schedule
            .add(waits, cost.saturating_add(PARALLEL_INSTRUCTION_NS));
        // A value that was read of a variable is released before an update, so that the update is in place.
        let mut release = SmallVec::new();
        for &v in updates {
            release.extend(self.held[v].extract_if(.., |s| self.life[*s as usize].left == 0));
        }
        let variables: SmallVec<[Option<Arc<Variable>>; 1]> = node
            .inputs
            .iter()
            .map(|i| self.variable_of.get(i).map(|&v| self.variables[v].clone()))
            .collect();
        let has_variables = variables.iter().any(Option::is_some);
        let random = node.op.effect == Effect::Random;
        for &slot in &outputs {
            self.life[slot as usize].writer = Some(at);
        }
        for &slot in inputs.iter().filter(|&&s| s != NO_SLOT) {
            let life = &mut self.life[slot as usize];
            life.users.push(at);
            life.left -= 1;
        }
        for &slot in inputs.iter().chain(&outputs).filter(|&&s| s != NO_SLOT) {
            self.free_if_unused(slot);
        }
        waits.sort_unstable();
        waits.dedup();
        self.waits_for.push(std::mem::take(waits));
        self.instruction_of.insert(id, SmallVec::from_elem(at, 1));
        self.costs.push(cost);
        self.instructions.push(Instruction {
            node: id,
            action,
            inputs,
            outputs,
            variables: if has_variables {
                variables
            } else {
                SmallVec::new()
            },
            counter: random.then(|| self.context.counter(&node.name)),
            release,
        });
    }

    /// Gives a slot's memory back when its last use has run.
    pub(super) fn free_if_unused(&mut self, slot: u32) {
        let life = &mut self.life[slot as usize];
        if life.left == 0
            && !self.context.separate_memory
            && let Some(block) = life.block.take()
        {
            let mut touched = life.users.clone();
            touched.extend(life.writer);
            self.free(block, touched);
        }
    }
}

/// Returns a value's dtype, dimensions and known content for a kernel; for a handle, those of the variable behind it.
fn operand(fact: &Fact) -> Operand {
    let (dtype, shape) = match &fact.variable {
        Some((dtype, shape)) => (*dtype, shape),
        None => (fact.dtype, &fact.shape),
    };
    Operand {
        dtype,
        dims: shape.to_dims().unwrap_or_default(),
        value: fact.value.clone(),
    }
}
