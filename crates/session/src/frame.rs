//! What one step in flight has of its own: an arena, slots, held tensors, counters.

use std::cell::UnsafeCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use thalweg_device::Slot;
use thalweg_device::evaluate::tensor_slot;
use thalweg_graph::Tensor;
use thalweg_graph::tensor::Buffer;

use crate::plan::{Home, Plan};

/// The state of one step. It is made once, and used again by later steps of the same plan.
pub(crate) struct Frame {
    arena: Buffer,
    cells: Box<[UnsafeCell<Cell>]>,
    pub(crate) pending: Box<[AtomicU32]>,
    pub(crate) ready: Mutex<BinaryHeap<Reverse<u32>>>,
    /// How many instructions are ready and not taken.
    pub(crate) ready_count: AtomicUsize,
    pub(crate) remaining: AtomicUsize,
    pub(crate) stop: AtomicBool,
}

struct Cell {
    slot: Slot,
    held: Option<Tensor>,
}

// SAFETY: a cell is written by the one instruction that fills it, or that gives it back after all
// who use it, and read by instructions that wait for that one; between steps by the thread that
// owns the frame. The plan's `waits` order all of these; the executor keeps to them.
unsafe impl Sync for Frame {}
// SAFETY: the pointers in the slots are into the frame's own arena, its held tensors, or the
// plan's constants, none of which belong to a thread.
unsafe impl Send for Frame {}

impl Frame {
    /// A frame for this plan; `None` where there is no memory for its arena.
    pub(crate) fn new(plan: &Plan) -> Option<Frame> {
        let arena = Buffer::try_zeroed(plan.arena)?;
        let cells = plan.slots.iter().map(|s| {
            let slot = match &s.home {
                Home::Arena(offset) => Slot {
                    // SAFETY: the plan keeps every offset within the arena's length.
                    ptr: unsafe { arena.as_ptr().add(*offset) },
                    len: s.len,
                    dtype: s.dtype,
                },
                Home::Constant(t) => tensor_slot(t),
                Home::Held => Slot::empty(s.dtype),
            };
            UnsafeCell::new(Cell { slot, held: None })
        });
        Some(Frame {
            cells: cells.collect(),
            arena,
            pending: plan.waits.iter().map(|_| AtomicU32::new(0)).collect(),
            ready: Mutex::new(BinaryHeap::with_capacity(plan.len())),
            ready_count: AtomicUsize::new(0),
            remaining: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        })
    }

    /// Where a slot is.
    ///
    /// # Safety
    /// The caller runs an instruction that waits for the one that fills the slot, or owns the
    /// frame between steps.
    pub(crate) unsafe fn slot(&self, slot: u32) -> Slot {
        // SAFETY: nobody writes the cell meanwhile, by the caller's promise.
        unsafe { (*self.cells[slot as usize].get()).slot }
    }

    /// The tensor that a slot holds.
    ///
    /// # Safety
    /// As [`Frame::slot`].
    pub(crate) unsafe fn held(&self, slot: u32) -> Option<&Tensor> {
        // SAFETY: nobody writes the cell meanwhile, by the caller's promise.
        unsafe { (*self.cells[slot as usize].get()).held.as_ref() }
    }

    /// Makes a slot hold a tensor, or nothing.
    ///
    /// # Safety
    /// The caller runs the instruction that fills the slot, or one that waits for all who use it,
    /// or owns the frame between steps.
    pub(crate) unsafe fn hold(&self, slot: u32, tensor: Option<Tensor>) {
        // SAFETY: nobody else looks at the cell meanwhile, by the caller's promise.
        let cell = unsafe { &mut *self.cells[slot as usize].get() };
        if let Some(t) = &tensor {
            cell.slot = tensor_slot(t);
        }
        cell.held = tensor;
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

    /// Makes the frame ready for a step.
    pub(crate) fn reset(&mut self, plan: &Plan) {
        self.stop.store(false, Ordering::Relaxed);
        for (pending, &n) in self.pending.iter().zip(&plan.waits) {
            pending.store(n, Ordering::Relaxed);
        }
        let ready = self.ready.get_mut().unwrap_or_else(PoisonError::into_inner);
        ready.clear();
        let first = plan.waits.iter().enumerate().filter(|(_, n)| **n == 0);
        ready.extend(first.map(|(i, _)| Reverse(i as u32)));
        *self.ready_count.get_mut() = ready.len();
        *self.remaining.get_mut() = plan.len();
    }

    /// Gives back every tensor that the step held.
    pub(crate) fn clear(&mut self, plan: &Plan) {
        for (cell, slot) in self.cells.iter_mut().zip(&plan.slots) {
            if matches!(slot.home, Home::Held) {
                cell.get_mut().held = None;
            }
        }
    }
}
