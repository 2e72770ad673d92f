//! Runs one instruction of a program on the host.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use thalweg_device::{
    Argument, GateGuard, KernelCx, KernelError, SharedObject, Slot, Variable, evaluate_in,
};
use thalweg_graph::flow::is_extracted;
use thalweg_graph::{Node, Origin};
use thalweg_tensor::Memory;
use thalweg_tensor::{DType, Shape, Tensor, TensorError};

use super::ProgramRun;
use super::step_environment::StepEnvironment;
use super::values::{bytes, copy_slot, first_not_finite};
use crate::run_options::Cancel;
use thalweg_plan::SessionError;
use thalweg_plan::{Action, Home, Instruction, NO_SLOT, failed, memory};

/// Number of inputs of a kernel that need no heap memory: as many as an optimizer's update has.
const INLINE_INPUTS: usize = 10;

impl ProgramRun<'_> {
    /// Runs an instruction, with the step's checks and trace.
    pub(super) fn run_with_controls(&self, at: u32) -> Result<(), SessionError> {
        self.check_limits(self.program.node(at))?;
        let start = self.step.controls.recorder.map(|_| Instant::now());
        self.instruction(at)?;
        if let (Some(recorder), Some(start)) = (self.step.controls.recorder, start) {
            recorder.add(
                self.program,
                self.device.name(),
                at,
                self.output_bytes(at),
                start,
            );
        }
        if self.step.controls.check_finite {
            self.check_finite(at)?;
        }
        Ok(())
    }

    /// Bytes of the outputs of an instruction that has run.
    fn output_bytes(&self, at: u32) -> usize {
        let outputs = &self.program.instructions[at as usize].outputs;
        let bytes = outputs.iter().filter(|&&s| s != NO_SLOT).map(|&slot| {
            let plan = &self.program.slots[slot as usize];
            let elements = match plan.home {
                // SAFETY: this thread has just run the instruction that fills the slot.
                Home::Held => unsafe { self.part.slot(slot) }.len,
                _ => plan.len,
            };
            elements.saturating_mul(plan.dtype.size())
        });
        bytes.fold(0, usize::saturating_add)
    }

    pub(super) fn instruction(&self, at: u32) -> Result<(), SessionError> {
        match self.program.instructions[at as usize].action {
            Action::Stage
            | Action::Segment(_)
            | Action::Check(_)
            | Action::IsInitialized { .. }
            | Action::Wait
            | Action::Loop { .. } => self.queued(at),
            Action::Region(ref region) => {
                let instruction = &self.program.instructions[at as usize];
                let arguments = self.arguments(instruction).map_err(|e| self.error(at, e))?;
                let results = self.region(region, &arguments)?;
                self.fill(instruction, results)
                    .map_err(|e| self.error(at, e))
            }
            _ => self.on_host(at).map_err(|e| self.error(at, e)),
        }
    }

    fn on_host(&self, at: u32) -> Result<(), KernelError> {
        let instruction = &self.program.instructions[at as usize];
        for &slot in &instruction.release {
            // SAFETY: the plan lets this instruction wait for all that use the slot.
            unsafe { self.part.hold(slot, None) };
        }
        let _updating = self.updating(instruction);
        match &instruction.action {
            Action::Run { run, scratch, own } => {
                if *own {
                    self.renew(instruction)?;
                }
                // Filled where they are: as results they would be moved.
                let mut inputs: SmallVec<[Slot; INLINE_INPUTS]> = SmallVec::new();
                let mut outputs: SmallVec<[Slot; 2]> = SmallVec::new();
                // SAFETY: the plan gives each output memory that nothing else uses until its last use, but for an input
                // that the kernel may share; this instruction waits for those that filled its inputs and for those that
                // used the memory before. Slots with known lengths are filled before they are read.
                unsafe {
                    self.slots(&instruction.inputs, &mut inputs);
                    self.slots(&instruction.outputs, &mut outputs);
                }
                // SAFETY: as above.
                let cx = unsafe {
                    KernelCx::new(
                        self.cpu,
                        &inputs,
                        &outputs,
                        &instruction.variables,
                        instruction.counter.as_deref(),
                        self.part.scratch(*scratch),
                    )
                };
                run(&cx)
            }
            Action::Read { shape } => {
                let variable = variable(instruction)?;
                let value = variable.read()?;
                if value.dtype() != variable.dtype() || !shape.admits(value.dims()) {
                    return Err(KernelError::Variable {
                        variable: variable.name().to_owned(),
                        expected_dtype: variable.dtype(),
                        expected: shape.clone(),
                        found_dtype: value.dtype(),
                        found: value.shape(),
                    });
                }
                // SAFETY: this instruction fills the slot.
                unsafe { self.part.hold(instruction.outputs[0], Some(value)) };
                Ok(())
            }
            Action::Send { channel } => self.send(instruction, *channel),
            Action::SendRemote { channel } => self.send_remote(instruction, *channel),
            Action::Receive
            | Action::ReceiveRemote { .. }
            | Action::Stage
            | Action::Segment(_)
            | Action::Check(_)
            | Action::IsInitialized { .. }
            | Action::Wait
            | Action::Loop { .. } => Ok(()),
            Action::Late { op, node } => {
                let outputs = self.run_late(instruction, op, node)?;
                self.fill(instruction, outputs)
            }
            // Its errors name its own nodes.
            Action::Region(_) => Ok(()),
        }
    }

    /// Holds the gates of an instruction's variables, so that steps that must not wait do not begin: in a step that
    /// other tasks take part in, unless it is one that must not wait itself.
    fn updating<'i>(&self, instruction: &'i Instruction) -> SmallVec<[GateGuard<'i>; 4]> {
        let controls = &self.step.controls;
        let mut held = SmallVec::new();
        if controls.channels.is_none()
            || controls.entered_gates
            || instruction.variables.is_empty()
            || matches!(instruction.action, Action::Read { .. })
        {
            return held;
        }
        let variables = instruction.variables.iter().flatten();
        held.extend(variables.map(|v| v.gate().hold()));
        held
    }

    /// Allocates memory for the outputs that lie in tensors of their own.
    #[cold]
    fn renew(&self, instruction: &Instruction) -> Result<(), KernelError> {
        for &slot in &instruction.outputs {
            let plan = &self.program.slots[slot as usize];
            if let Home::Own = plan.home {
                // SAFETY: this instruction fills the slot, once this has been done.
                unsafe { self.part.renew(slot, plan, self.cpu.memory())? };
            }
        }
        Ok(())
    }

    /// Copies a value into the slot that its receiver has allocated for it.
    fn send(&self, instruction: &Instruction, channel: usize) -> Result<(), KernelError> {
        let channel = self.step.plan.channels[channel];
        let (Some(&from), Some(to)) = (instruction.inputs.first(), channel.slot) else {
            return Ok(());
        };
        let there = self.step.program_run(channel.to as usize);
        if let Some(gpu) = self.device.gpu() {
            if self.copy_between(instruction.node, from, &there, to)? {
                return Ok(());
            }
            self.wait_for(gpu)?;
        }
        if let Home::Held = there.program.slots[to as usize].home {
            let output = self.program.graph.node(instruction.node).inputs.first();
            let tensor = self.value(from, output.copied())?;
            let tensor = tensor.copied_to(there.cpu.memory())?;
            // SAFETY: this instruction fills the slot; its receiver waits for it.
            unsafe { there.part.hold(to, Some(tensor)) };
            return Ok(());
        }
        // SAFETY: this instruction waits for the one that fills its input. The memory there is set
        // aside from the start of the step, for this instruction to fill; its receiver waits.
        unsafe { copy_slot(self.part.slot(from), there.part.slot(to)) }
    }

    /// Sends a value to another task or a client; for a control dependency, an empty value.
    fn send_remote(&self, instruction: &Instruction, channel: i64) -> Result<(), KernelError> {
        let value = match self.arguments(instruction)?.into_iter().next() {
            Some(value) => value,
            None => Tensor::zeros(DType::F32, &[0])?,
        };
        self.step.channels()?.send(channel, value)
    }

    /// Stores a value from another task or a client in the slot of the instruction that waits for it.
    pub(super) fn store_received(&self, at: u32, value: Tensor) -> Result<(), KernelError> {
        let instruction = &self.program.instructions[at as usize];
        let node = self.program.graph.node(instruction.node);
        let fact = &node.outputs[0];
        if value.dtype() != fact.dtype {
            return Err(KernelError::Invalid(format!(
                "a value of {} came, but {fact} was said when it was built",
                value.dtype()
            )));
        }
        self.fill(instruction, vec![value])
    }

    /// Appends the addresses of some slots to `places`.
    ///
    /// # Safety
    /// As [`ProgramFrame::slot`], for each.
    unsafe fn slots<A: smallvec::Array<Item = Slot>>(
        &self,
        slots: &[u32],
        places: &mut SmallVec<A>,
    ) {
        for &slot in slots {
            places.push(match slot {
                NO_SLOT => Slot::empty(DType::Resource),
                // SAFETY: by the caller's promise.
                slot => unsafe { self.part.slot(slot) },
            });
        }
    }

    /// Runs a node whose shapes or host values are known only at run time, on tensors of its own.
    fn run_late(
        &self,
        instruction: &Instruction,
        op: &'static thalweg_device::Op,
        node: &Node,
    ) -> Result<Vec<Tensor>, KernelError> {
        let tensors = self.arguments(instruction)?;
        let arguments: SmallVec<[Argument<'_>; 4]> = tensors.iter().map(Argument::Value).collect();
        let counter = instruction.counter.as_deref();
        let around = StepEnvironment { run: self, node };
        evaluate_in(self.cpu, op, node, &arguments, counter, &around)
    }

    /// The inputs of an instruction as tensors; that of a variable's handle holds the variable.
    fn arguments(&self, instruction: &Instruction) -> Result<SmallVec<[Tensor; 4]>, KernelError> {
        let node = self.program.graph.node(instruction.node);
        let mut tensors: SmallVec<[Tensor; 4]> = SmallVec::new();
        for (i, &slot) in instruction.inputs.iter().enumerate() {
            let variable = instruction.variables.get(i).and_then(Option::as_ref);
            tensors.push(match (slot, variable) {
                (_, Some(v)) => Tensor::handle(DType::Resource, v.clone() as SharedObject)?,
                (NO_SLOT, None) => return Err(KernelError::Argument("an input")),
                (slot, None) => self.value(slot, node.inputs.get(i).copied())?,
            });
        }
        Ok(tensors)
    }

    /// Stores the outputs of an instruction in its slots.
    fn fill(&self, instruction: &Instruction, tensors: Vec<Tensor>) -> Result<(), KernelError> {
        let node = self.program.graph.node(instruction.node);
        for (i, (&slot, tensor)) in instruction.outputs.iter().zip(tensors).enumerate() {
            // Later instructions were planned for the output's known shape.
            let fact = &node.outputs[i];
            if !fact.shape.admits(tensor.dims()) {
                return Err(KernelError::Invalid(format!(
                    "output {i} has shape {}, but {fact} was said when it was built",
                    tensor.shape()
                )));
            }
            // SAFETY: this instruction fills the slot.
            unsafe { self.part.hold(slot, Some(tensor)) };
        }
        Ok(())
    }

    /// Checks that the step may go on; `next` is the node that would run next.
    ///
    /// # Errors
    /// Its time is up, or it was cancelled.
    pub(super) fn check_limits(&self, next: &Node) -> Result<(), SessionError> {
        let controls = &self.step.controls;
        if let (Some(deadline), Some(limit)) = (self.step.deadline, controls.timeout)
            && Instant::now() >= deadline
        {
            let next = next.name.clone();
            return Err(SessionError::Timeout { limit, next });
        }
        if controls.cancel.is_some_and(Cancel::is_cancelled) {
            let next = next.name.clone();
            return Err(SessionError::Cancelled { next });
        }
        Ok(())
    }

    /// Returns the error of a node whose kernel failed; of one that was stopped, the reason.
    pub(super) fn error_of(&self, node: &Node, source: KernelError) -> SessionError {
        match source {
            KernelError::Stopped => match self.check_limits(node) {
                Err(reason) => reason,
                Ok(()) => failed(node, source),
            },
            // A loop or a branch that was compiled: its nodes are those of the graph.
            KernelError::Function {
                function,
                node,
                op,
                origin,
                source,
            } if is_extracted(&function) => SessionError::Kernel {
                node,
                op,
                origin: Origin::Other(origin.into()),
                source: *source,
            },
            source => failed(node, source),
        }
    }

    /// Returns the value of a slot as a tensor for the rest of the step: shared where it is held, copied from the
    /// arena.
    fn value(
        &self,
        slot: u32,
        output: Option<thalweg_graph::OutputId>,
    ) -> Result<Tensor, KernelError> {
        let dims = output.and_then(|o| self.program.graph.fact(o)?.shape.to_dims());
        self.tensor_in(slot, dims.as_deref(), Some(self.cpu.memory()))
    }

    /// Returns the value of a slot with these dimensions, or with those of the tensor that it holds, for the caller of
    /// the step.
    pub(crate) fn tensor(&self, slot: u32, dims: Option<&[usize]>) -> Result<Tensor, KernelError> {
        self.tensor_in(slot, dims, None)
    }

    fn tensor_in(
        &self,
        slot: u32,
        dims: Option<&[usize]>,
        memory: Option<&Arc<Memory>>,
    ) -> Result<Tensor, KernelError> {
        // SAFETY: called by an instruction that waits for the one that fills the slot, or when the
        // step is over.
        let (place, held) = unsafe { (self.part.slot(slot), self.part.held(slot)) };
        let shared = match &self.program.slots[slot as usize].home {
            Home::Constant(t) => Some(t),
            _ => held,
        };
        match (shared, dims) {
            (Some(t), Some(dims)) => Ok(t.reshaped(dims)?),
            (Some(t), None) => Ok(t.clone()),
            (None, Some(dims)) => {
                // SAFETY: as above.
                let bytes = unsafe { bytes(place) };
                Ok(Tensor::from_bytes_in(place.dtype, dims, bytes, memory)?)
            }
            (None, None) => Err(KernelError::Argument("a value")),
        }
    }

    pub(super) fn error(&self, at: u32, source: KernelError) -> SessionError {
        let node = self.program.node(at);
        match source {
            KernelError::Tensor(TensorError::TooLarge { dtype, dims }) => {
                // A value that is sent needs memory on the receiving device.
                let device = match self.program.instructions[at as usize].action {
                    Action::Send { channel } => {
                        let to = self.step.plan.channels[channel].to;
                        self.step.program_run(to as usize).device
                    }
                    _ => self.device,
                };
                memory(device, node, dtype, dims.as_slice().into())
            }
            KernelError::Memory { bytes } => {
                memory(self.device, node, DType::U8, Shape::known(&[bytes]))
            }
            source => self.error_of(node, source),
        }
    }

    fn check_finite(&self, at: u32) -> Result<(), SessionError> {
        let instruction = &self.program.instructions[at as usize];
        for (index, &slot) in instruction.outputs.iter().enumerate() {
            // SAFETY: this thread has just run the instruction that fills the slot.
            let place = unsafe { self.part.slot(slot) };
            if let Some((element, value)) = first_not_finite(place) {
                let node = self.program.node(at);
                return Err(SessionError::NotFinite {
                    node: node.name.clone(),
                    op: node.op.name.to_owned(),
                    origin: node.origin.clone(),
                    index,
                    element,
                    value,
                });
            }
        }
        Ok(())
    }
}

fn variable(instruction: &Instruction) -> Result<&Variable, KernelError> {
    let first = instruction.variables.first().and_then(Option::as_deref);
    first.ok_or(KernelError::Argument("a variable"))
}
