//! Frames: the memory of one step in flight. For each program an arena, slots and held tensors, and the rendezvous
//! where programs meet.

use std::cell::UnsafeCell;
use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::evaluate::tensor_slot;
use thalweg_device::{Collectives, Device, Rendezvous, Slot};
use thalweg_tensor::{Buffer, Memory};
use thalweg_tensor::{Tensor, TensorError};

use crate::gpu_frame::GpuFrame;
use thalweg_plan::SessionError;
use thalweg_plan::{Home, Plan, Program, SlotPlan, memory_of_step};

/// The state of one step. It is made once, and reused by later steps of the same plan.
pub(crate) struct Frame {
    pub(crate) parts: SmallVec<[ProgramFrame; 1]>,
    pub(crate) rendezvous: Rendezvous,
}

impl Frame {
    /// A frame for this plan.
    ///
    /// # Errors
    /// [`SessionError::Memory`] where a device has no memory for its arena.
    pub(crate) fn new(
        plan: &Plan,
        devices: &[Device],
        ranks: Option<&Arc<dyn Collectives>>,
    ) -> Result<Frame, SessionError> {
        let parts = plan
            .programs
            .iter()
            .map(|p| ProgramFrame::new(p, &devices[p.device], ranks));
        Ok(Frame {
            parts: parts.collect::<Result<_, _>>()?,
            rendezvous: Rendezvous::new(plan.programs.iter().map(Program::len)),
        })
    }

    /// Gives back every tensor that the step held.
    pub(crate) fn clear(&mut self, plan: &Plan) {
        for (part, program) in self.parts.iter_mut().zip(&plan.programs) {
            part.clear(program);
        }
    }
}

/// The memory of one program in a step.
pub(crate) struct ProgramFrame {
    arena: Buffer,
    cells: Box<[UnsafeCell<Cell>]>,
    /// Its memory and commands on its GPU, if its device is one.
    pub(crate) gpu_frame: Option<GpuFrame>,
}

struct Cell {
    slot: Slot,
    held: Option<Tensor>,
}

// SAFETY: a cell is written by the one instruction that fills it, or that gives it back after all that use it, and read
// by instructions that wait for that one; between steps by the thread that owns the frame. The plan's `waits` order all
// of these; the executor keeps to them.
unsafe impl Sync for ProgramFrame {}
// SAFETY: the pointers in the slots are into the frame's own arena, its staging memory, its held
// tensors, or the plan's constants, none of which belong to a thread.
unsafe impl Send for ProgramFrame {}

impl ProgramFrame {
    fn new(
        program: &Program,
        device: &Device,
        ranks: Option<&Arc<dyn Collectives>>,
    ) -> Result<ProgramFrame, SessionError> {
        let too_large = || {
            let (node, fact) = program
                .largest()
                .expect("a program without values has an arena without bytes");
            memory_of_step(device, node, fact, program.arena_bytes())
        };
        let (bytes, gpu_frame) = match device {
            Device::Cpu(_) => (program.arena, None),
            Device::Gpu(gpu) => (0, GpuFrame::new(program, gpu, ranks, too_large)?),
        };
        let arena = Buffer::try_zeroed_in(bytes, device.memory()).ok_or_else(too_large)?;
        let cells = program.slots.iter().map(|s| {
            let slot = match &s.home {
                Home::Arena(offset) => Slot {
                    // SAFETY: the plan keeps every offset within the arena's length.
                    ptr: unsafe { arena.as_ptr().add(*offset) },
                    len: s.len,
                    ..Slot::empty(s.dtype)
                },
                Home::Staged(offset) => Slot {
                    ptr: gpu_frame
                        .as_ref()
                        .map_or(std::ptr::null_mut(), |q| q.staged(*offset)),
                    len: s.len,
                    ..Slot::empty(s.dtype)
                },
                Home::Constant(t) => tensor_slot(t),
                // Not the host's to touch.
                Home::OnGpu(_) | Home::Own | Home::Held => Slot::empty(s.dtype),
            };
            UnsafeCell::new(Cell { slot, held: None })
        });
        Ok(ProgramFrame {
            cells: cells.collect(),
            arena,
            gpu_frame,
        })
    }

    /// Returns the address and length of a slot.
    ///
    /// # Safety
    /// The caller runs an instruction that waits for the one that fills the slot, or owns the
    /// frame between steps.
    pub(crate) unsafe fn slot(&self, slot: u32) -> Slot {
        // SAFETY: the cell is not written meanwhile, by the caller's promise.
        unsafe { (*self.cells[slot as usize].get()).slot }
    }

    /// The tensor that a slot holds.
    ///
    /// # Safety
    /// As [`ProgramFrame::slot`].
    pub(crate) unsafe fn held(&self, slot: u32) -> Option<&Tensor> {
        // SAFETY: the cell is not written meanwhile, by the caller's promise.
        unsafe { (*self.cells[slot as usize].get()).held.as_ref() }
    }

    /// Makes a slot hold a tensor, or nothing.
    ///
    /// # Safety
    /// The caller runs the instruction that fills the slot, or one that waits for all that use it, or owns the
    /// frame between steps.
    pub(crate) unsafe fn hold(&self, slot: u32, tensor: Option<Tensor>) {
        // SAFETY: nothing else accesses the cell meanwhile, by the caller's promise.
        let cell = unsafe { &mut *self.cells[slot as usize].get() };
        if let Some(t) = &tensor {
            cell.slot = tensor_slot(t);
        }
        cell.held = tensor;
    }

    /// Gives a slot of this plan that lies in a tensor of its own the memory of an earlier value, if it fits.
    ///
    /// # Safety
    /// As [`ProgramFrame::hold`].
    pub(crate) unsafe fn reuse(&self, slot: u32, plan: &SlotPlan, earlier: Tensor) {
        if earlier.dtype() == plan.dtype && earlier.len() == plan.len {
            // SAFETY: by the caller's promise.
            unsafe { self.hold(slot, Some(earlier)) };
        }
    }

    /// Allocates a tensor for a slot of this plan that lies in a tensor of its own: reuses that of the step before,
    /// where nothing else holds it any more.
    ///
    /// # Errors
    /// There is no memory.
    ///
    /// # Safety
    /// The caller runs the instruction that fills the slot, before it does.
    pub(crate) unsafe fn renew(
        &self,
        slot: u32,
        plan: &SlotPlan,
        memory: &Arc<Memory>,
    ) -> Result<(), TensorError> {
        // SAFETY: nothing else accesses the cell meanwhile, by the caller's promise.
        let cell = unsafe { &mut *self.cells[slot as usize].get() };
        // Reads by its earlier holders come before what is written now: `get_mut` sees to that.
        let mut before = cell.held.take().and_then(|t| t.buffer().cloned());
        let before = before.take_if(|b| Buffer::get_mut(b).is_some());
        let tensor = match before {
            Some(buffer) => Tensor::from_buffer(plan.dtype, &[plan.len], buffer)?,
            None => Tensor::any_in(plan.dtype, &[plan.len], memory)?,
        };
        // It is not read before the instruction has run.
        let ptr = (tensor.buffer()).map_or(std::ptr::null_mut(), |b| b.as_ptr());
        cell.slot = Slot {
            ptr,
            len: plan.len,
            ..Slot::empty(plan.dtype)
        };
        cell.held = Some(tensor);
        Ok(())
    }

    /// Scratch memory at an offset of the arena.
    pub(crate) fn scratch(&self, (offset, len): (usize, usize)) -> (*mut u8, usize) {
        let offset = offset.min(self.arena.len());
        // SAFETY: within the arena.
        (
            unsafe { self.arena.as_ptr().add(offset) },
            len.min(self.arena.len() - offset),
        )
    }

    fn clear(&mut self, program: &Program) {
        for (cell, slot) in self.cells.iter_mut().zip(&program.slots) {
            if matches!(slot.home, Home::Held) {
                cell.get_mut().held = None;
            }
        }
    }
}
