//! The context of a running kernel: its arguments, its variables, its device.
//!
//! A kernel gets its inputs and outputs as slices. Where both may be one buffer, it takes them together:
//!
//! ```
//! use thalweg_device::{InOut, KernelCx, KernelError};
//!
//! fn double(cx: &KernelCx<'_>) -> Result<(), KernelError> {
//!     match cx.in_out::<f32>(0, 0)? {
//!         InOut::Same(x) => x.iter_mut().for_each(|x| *x *= 2.0),
//!         InOut::Apart(x, y) => y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x),
//!     }
//!     Ok(())
//! }
//! # use thalweg_device::{Argument, Cpu, Op, Prepared, cpu, evaluate};
//! # use thalweg_graph::op::{Registry, arg_of};
//! # use thalweg_graph::{Graph, OpDef};
//! # use thalweg_tensor::{DType, Tensor};
//! # static SOURCE: OpDef = OpDef { name: "Source", outputs: &[arg_of("y", DType::F32)], ..OpDef::EMPTY };
//! # static DOUBLE: Op = Op {
//! #     def: OpDef {
//! #         name: "Double",
//! #         inputs: &[arg_of("x", DType::F32)],
//! #         outputs: &[arg_of("y", DType::F32)],
//! #         shape: |cx| Ok(cx.set(0, cx.shape(0).clone())),
//! #         ..OpDef::EMPTY
//! #     },
//! #     kernels: &[cpu(|p| Ok(Prepared::new(p.outputs[0].elements(), double))).in_place(&[(0, 0)])],
//! # };
//! # let g = Graph::with_registry(Registry::new([&SOURCE, &DOUBLE.def]).into());
//! # let node = g.op("Double").input(g.op("Source").output()).build();
//! # let node = g.snapshot().node(node.id()).clone();
//! # let given = Tensor::vector(&[1.0f32, 2.0]);
//! # let found = evaluate(&Cpu::new(1), &DOUBLE, &node, &[Argument::Value(&given)], None)?;
//! assert_eq!(found[0], Tensor::vector(&[2.0f32, 4.0]));
//! # Ok::<(), KernelError>(())
//! ```

mod variables;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thalweg_tensor::Notes;
use thalweg_tensor::{DType, Element, Tensor};

use crate::cpu::Cpu;
use crate::error::KernelError;
use crate::variable::Variable;
use thalweg_cpu::thread_pool::ThreadPool;

/// The place of an input or output during a step.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Its first byte.
    pub ptr: *mut u8,
    /// The number of elements.
    pub len: usize,
    /// Their dtype.
    pub dtype: DType,
    /// Notes about the buffer whose elements these are, all of them; null where there can be none.
    pub notes: *const Notes,
}

impl Slot {
    /// An empty slot.
    pub fn empty(dtype: DType) -> Slot {
        Slot {
            ptr: std::ptr::null_mut(),
            len: 0,
            dtype,
            notes: std::ptr::null(),
        }
    }
}

/// The context of a running kernel: its arguments, its variables, its device. All of it comes from here; a kernel knows
/// no global.
pub struct KernelCx<'a> {
    cpu: &'a Cpu,
    inputs: &'a [Slot],
    outputs: &'a [Slot],
    variables: &'a [Option<Arc<Variable>>],
    counter: Option<&'a AtomicU64>,
    scratch: Cell<Option<(*mut u8, usize)>>,
    /// A bit for each of the first outputs: set once it was handed out.
    taken: Cell<u64>,
    /// The same for those behind them, a word of bits at a time.
    more_taken: RefCell<Vec<u64>>,
}

/// An input and an output that may be one buffer.
pub enum InOut<'a, T> {
    /// They are: the input's elements, to be overwritten.
    Same(&'a mut [T]),
    /// They are not.
    Apart(&'a [T], &'a mut [T]),
}

/// A variable that is given new elements.
#[derive(Debug)]
pub struct Renewal<'a> {
    /// The tensor with its old elements, where that is not `new`.
    pub old: Option<&'a Tensor>,
    /// The tensor for the new elements. Without `old` it holds the variable's elements; with it, arbitrary ones.
    pub new: &'a mut Tensor,
}

impl<'a> KernelCx<'a> {
    /// The context of one run of a kernel.
    ///
    /// # Safety
    /// For `'a`, every slot must be valid for its elements and hold initialised bytes that are elements of its dtype,
    /// its notes null or valid; an output must be written by nothing else and be apart from all others, except from an
    /// input that the kernel's [`in_place`](crate::Kernel::in_place) pairs with it and that nothing else reads;
    /// `scratch` must be valid, aligned to [`thalweg_tensor::ALIGNMENT`], and exclusive.
    pub unsafe fn new(
        cpu: &'a Cpu,
        inputs: &'a [Slot],
        outputs: &'a [Slot],
        variables: &'a [Option<Arc<Variable>>],
        counter: Option<&'a AtomicU64>,
        scratch: (*mut u8, usize),
    ) -> KernelCx<'a> {
        KernelCx {
            cpu,
            inputs,
            outputs,
            variables,
            counter,
            scratch: Cell::new(Some(scratch)),
            taken: Cell::new(0),
            more_taken: RefCell::default(),
        }
    }

    /// The context of a kernel that this one runs, with arguments of its own.
    ///
    /// # Safety
    /// As [`KernelCx::new`].
    pub unsafe fn inner<'b>(
        &'b self,
        inputs: &'b [Slot],
        outputs: &'b [Slot],
        scratch: (*mut u8, usize),
    ) -> KernelCx<'b> {
        // SAFETY: the caller's promise.
        unsafe {
            KernelCx::new(
                self.cpu,
                inputs,
                outputs,
                self.variables,
                self.counter,
                scratch,
            )
        }
    }

    /// The CPU that the kernel runs on.
    pub fn cpu(&self) -> &'a Cpu {
        self.cpu
    }

    /// The threads that the kernel may split its work over.
    pub fn pool(&self) -> &'a ThreadPool {
        self.cpu.pool()
    }

    /// A tensor of zeros in the device's memory, for a value that outlives the step.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] where there is no memory for it.
    pub fn zeros(&self, dtype: DType, dims: &[usize]) -> Result<Tensor, KernelError> {
        Ok(Tensor::zeros_in(dtype, dims, self.cpu().memory())?)
    }

    /// `true` if the device has a limit of memory: memory that is kept for speed alone should not come near it.
    pub fn memory_is_limited(&self) -> bool {
        self.cpu().memory().limit().is_some()
    }

    /// Returns the slots of the inputs, for a kernel that runs others on parts of them.
    pub fn input_slots(&self) -> &[Slot] {
        self.inputs
    }

    /// Returns the notes about input `i`, which has as many elements as [`KernelCx::input`] returns.
    pub fn notes(&self, i: usize) -> Option<&'a Notes> {
        // SAFETY: null or valid for `'a`, by `new`'s contract.
        self.inputs.get(i).and_then(|s| unsafe { s.notes.as_ref() })
    }

    /// Returns the slot of output `i`, to be written; it can be taken once.
    ///
    /// # Errors
    /// [`KernelError::Argument`]: a defect of the kernel.
    pub fn output_slot(&self, i: usize) -> Result<Slot, KernelError> {
        self.take(i)?;
        let slot = self.outputs.get(i).copied();
        slot.ok_or_else(|| KernelError::Argument("an argument"))
    }

    fn slot<T: Element>(slots: &[Slot], i: usize) -> Result<Slot, KernelError> {
        let Some(slot) = slots.get(i) else {
            return Err(KernelError::Argument("an argument"));
        };
        if slot.dtype == T::DTYPE {
            Ok(*slot)
        } else {
            Err(KernelError::DType(slot.dtype))
        }
    }

    /// The elements of input `i`.
    ///
    /// # Errors
    /// [`KernelError::DType`] or [`KernelError::Argument`]: a defect of the kernel. One that lies
    /// in an output's buffer can only be had by [`KernelCx::in_out`].
    pub fn input<T: Element>(&self, i: usize) -> Result<&'a [T], KernelError> {
        let slot = Self::slot::<T>(self.inputs, i)?;
        if slot.len == 0 {
            return Ok(&[]);
        }
        if self.outputs.iter().any(|o| o.ptr == slot.ptr && o.len > 0) {
            return Err(KernelError::Argument("an input that is overwritten"));
        }
        // SAFETY: the slot is valid and of dtype `T` (checked), and no output overlaps it: by
        // `new`'s contract an output overlaps an input only if they are one buffer.
        Ok(unsafe { std::slice::from_raw_parts(slot.ptr.cast::<T>(), slot.len) })
    }

    /// The elements of output `i`, to write. Each output can be taken once.
    ///
    /// # Errors
    /// [`KernelError::DType`] or [`KernelError::Argument`]: a defect of the kernel.
    #[allow(clippy::mut_from_ref, reason = "each output is handed out once")]
    pub fn output<T: Element>(&self, i: usize) -> Result<&'a mut [T], KernelError> {
        let slot = self.take_output::<T>(i)?;
        if T::DTYPE == DType::Bool && slot.len > 0 {
            // The bytes there need not have been bools.
            // SAFETY: the slot is valid for its elements, and `take_output` hands it out once.
            unsafe { slot.ptr.write_bytes(0, slot.len) };
        }
        Ok(Self::elements_mut(slot))
    }

    /// Marks output `i` as handed out.
    fn take(&self, i: usize) -> Result<(), KernelError> {
        if i >= self.outputs.len() {
            return Err(KernelError::Argument("an argument"));
        }
        let (word, bit) = (i / u64::BITS as usize, 1u64 << (i % u64::BITS as usize));
        let before = if word == 0 {
            self.taken.replace(self.taken.get() | bit)
        } else {
            let mut taken = self.more_taken.borrow_mut();
            if taken.len() < word {
                taken.resize(word, 0);
            }
            let before = taken[word - 1];
            taken[word - 1] |= bit;
            before
        };
        match before & bit {
            0 => Ok(()),
            _ => Err(KernelError::Argument("an output for the second time")),
        }
    }

    fn take_output<T: Element>(&self, i: usize) -> Result<Slot, KernelError> {
        let slot = Self::slot::<T>(self.outputs, i)?;
        self.take(i)?;
        Ok(slot)
    }

    /// The elements of a slot that `take_output` has just handed out.
    fn elements_mut<T: Element>(slot: Slot) -> &'a mut [T] {
        if slot.len == 0 {
            return &mut [];
        }
        // SAFETY: the slot is valid and of dtype `T`; no one else has it (`take_output`), and an
        // input that is the same buffer is not handed out beside it (`input`).
        unsafe { std::slice::from_raw_parts_mut(slot.ptr.cast::<T>(), slot.len) }
    }

    /// Input `i` and output `o`, of one dtype and length, that may be one buffer.
    ///
    /// # Errors
    /// As [`KernelCx::input`] and [`KernelCx::output`].
    pub fn in_out<T: Element>(&self, i: usize, o: usize) -> Result<InOut<'a, T>, KernelError> {
        if self.is_in_place(i, o) {
            Self::slot::<T>(self.inputs, i)?;
            Ok(InOut::Same(Self::elements_mut(self.take_output::<T>(o)?)))
        } else {
            Ok(InOut::Apart(self.input(i)?, self.output(o)?))
        }
    }

    /// `true` if input `i` and output `o` are one buffer.
    pub fn is_in_place(&self, i: usize, o: usize) -> bool {
        match (self.inputs.get(i), self.outputs.get(o)) {
            (Some(i), Some(o)) => i.ptr == o.ptr && o.len > 0 && i.len == o.len,
            _ => false,
        }
    }

    /// The bytes of input `i`, whatever its dtype.
    ///
    /// # Errors
    /// As [`KernelCx::input`].
    pub fn input_bytes(&self, i: usize) -> Result<&'a [u8], KernelError> {
        let Some(&slot) = self.inputs.get(i) else {
            return Err(KernelError::Argument("an argument"));
        };
        if slot.len == 0 {
            return Ok(&[]);
        }
        if self.outputs.iter().any(|o| o.ptr == slot.ptr && o.len > 0) {
            return Err(KernelError::Argument("an input that is overwritten"));
        }
        // SAFETY: as in `input`; elements have no padding, so their bytes may be read.
        Ok(unsafe { std::slice::from_raw_parts(slot.ptr, slot.len * slot.dtype.size()) })
    }

    /// The bytes of output `i`, whatever its dtype: to be filled with whole elements that were
    /// read from an input of the same dtype.
    ///
    /// # Errors
    /// As [`KernelCx::output`]. A `Bool` output is refused: not all bytes are bools; take it as
    /// `bool`.
    #[allow(clippy::mut_from_ref, reason = "each output is handed out once")]
    pub fn output_bytes(&self, i: usize) -> Result<&'a mut [u8], KernelError> {
        let Some(&slot) = self.outputs.get(i) else {
            return Err(KernelError::Argument("an argument"));
        };
        if slot.dtype == DType::Bool {
            return Err(KernelError::DType(slot.dtype));
        }
        self.take(i)?;
        if slot.len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as in `output`; every byte pattern is an element of the remaining dtypes.
        Ok(unsafe { std::slice::from_raw_parts_mut(slot.ptr, slot.len * slot.dtype.size()) })
    }

    /// The bytes of input `i` and output `o`, of one dtype and length, that may be one buffer.
    ///
    /// # Errors
    /// As [`KernelCx::input_bytes`] and [`KernelCx::output_bytes`].
    pub fn in_out_bytes(&self, i: usize, o: usize) -> Result<InOut<'a, u8>, KernelError> {
        if self.is_in_place(i, o) {
            Ok(InOut::Same(self.output_bytes(o)?))
        } else {
            Ok(InOut::Apart(self.input_bytes(i)?, self.output_bytes(o)?))
        }
    }

    /// Returns the first `len` elements of the scratch memory, with arbitrary contents. Can be taken once a run.
    ///
    /// # Errors
    /// [`KernelError::Argument`] where the kernel asked for less when it was prepared.
    #[allow(clippy::mut_from_ref, reason = "it is handed out once")]
    pub fn scratch<T: Element>(&self, len: usize) -> Result<&'a mut [T], KernelError> {
        let missing = || KernelError::Argument("scratch memory");
        if T::DTYPE == DType::Bool {
            return Err(missing());
        }
        if len == 0 {
            return Ok(&mut []);
        }
        let (ptr, bytes) = self.scratch.take().ok_or_else(missing)?;
        if len.checked_mul(size_of::<T>()).is_none_or(|n| n > bytes) {
            return Err(missing());
        }
        // SAFETY: valid and exclusive by `new`'s contract, taken once (`take`), and large enough;
        // arenas are zeroed when made, so the bytes are initialised, and every byte pattern is an
        // element.
        Ok(unsafe { std::slice::from_raw_parts_mut(ptr.cast::<T>(), len) })
    }

    /// The counter that a random op draws from: it outlives steps.
    ///
    /// # Errors
    /// [`KernelError::Argument`] where the op's effect is not `Random`.
    pub fn counter(&self) -> Result<&'a AtomicU64, KernelError> {
        let missing = || KernelError::Argument("a counter");
        self.counter.ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests;
