//! Kernels of narrow dtypes by the kernels of wider types: operands are converted as a whole.

use bytemuck::Pod;
use smallvec::SmallVec;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelCx, KernelError, Operand, Prepare, Prepared, RunFn, Slot};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{ALIGNMENT, DType};

use super::elementwise::{CHUNK, Compute, Conversion};

/// Runs `prepare`'s kernel for `f32`, `f64`, `i64`, `u64` or `c128`. For narrower dtypes, the listed inputs and outputs are
/// widened into scratch memory, and narrowed again.
///
/// For kernels that give the same bits that way: with halves, only results may be rounded.
pub(crate) fn widened(
    p: &Prepare<'_>,
    inputs: &'static [usize],
    outputs: &'static [usize],
    prepare: &dyn Fn(&Prepare<'_>) -> Result<Prepared, KernelError>,
) -> Result<Prepared, KernelError> {
    let first = inputs.first().map(|&i| &p.inputs[i]);
    let dtype = first
        .or(outputs.first().map(|&o| &p.outputs[o]))
        .map_or(DType::F32, |operand| operand.dtype);
    match dtype {
        DType::F16 | DType::BF16 => by::<f32>(p, dtype, inputs, outputs, prepare),
        DType::I8 | DType::I16 | DType::I32 => by::<i64>(p, dtype, inputs, outputs, prepare),
        DType::U8 | DType::U16 | DType::U32 | DType::Bool => {
            by::<u64>(p, dtype, inputs, outputs, prepare)
        }
        DType::C64 => by::<Complex<f64>>(p, dtype, inputs, outputs, prepare),
        _ => prepare(p),
    }
}

/// As [`widened`], for integers only: halves have their own kernel, which rounds intermediate results.
pub(crate) fn widened_ints(
    p: &Prepare<'_>,
    inputs: &'static [usize],
    outputs: &'static [usize],
    prepare: &dyn Fn(&Prepare<'_>) -> Result<Prepared, KernelError>,
) -> Result<Prepared, KernelError> {
    let first = inputs.first().map(|&i| &p.inputs[i]);
    match first.is_some_and(|operand| operand.dtype.is_float()) {
        true => prepare(p),
        false => widened(p, inputs, outputs, prepare),
    }
}

/// Runs `prepare`'s kernel with these inputs, which are indices, as `i64`.
pub(crate) fn with_i64_indices(
    p: &Prepare<'_>,
    inputs: &'static [usize],
    prepare: &dyn Fn(&Prepare<'_>) -> Result<Prepared, KernelError>,
) -> Result<Prepared, KernelError> {
    match inputs.first().map(|&i| p.inputs[i].dtype) {
        None | Some(DType::I64) => prepare(p),
        Some(dtype) => by::<i64>(p, dtype, inputs, &[], prepare),
    }
}

/// Runs `prepare`'s kernel with these inputs and outputs as unsigned integers of their elements' size, or as `c128`,
/// the only dtype of 16 bytes: for kernels that only copy elements.
pub(crate) fn as_uints(
    p: &Prepare<'_>,
    inputs: &'static [usize],
    outputs: &'static [usize],
    prepare: &dyn Fn(&Prepare<'_>) -> Result<Prepared, KernelError>,
) -> Result<Prepared, KernelError> {
    let like = |dtype: DType| match dtype.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        8 => DType::U64,
        _ => DType::C128,
    };
    as_others(p, inputs, outputs, like, prepare)
}

/// Runs `prepare`'s kernel with quantized inputs and outputs as integers.
pub(crate) fn as_integers(
    p: &Prepare<'_>,
    prepare: &dyn Fn(&Prepare<'_>) -> Result<Prepared, KernelError>,
) -> Result<Prepared, KernelError> {
    let like = |dtype: DType| match dtype {
        DType::QI8 => DType::I8,
        DType::QU8 => DType::U8,
        DType::QI16 => DType::I16,
        DType::QU16 => DType::U16,
        DType::QI32 => DType::I32,
        other => other,
    };
    as_others(p, &[0], &[0], like, prepare)
}

/// Runs `prepare`'s kernel with these inputs and outputs as another dtype of the same size.
fn as_others(
    p: &Prepare<'_>,
    inputs: &'static [usize],
    outputs: &'static [usize],
    like: fn(DType) -> DType,
    prepare: &dyn Fn(&Prepare<'_>) -> Result<Prepared, KernelError>,
) -> Result<Prepared, KernelError> {
    let (mut all, mut out) = (p.inputs.to_vec(), p.outputs.to_vec());
    for &i in inputs {
        all[i].dtype = like(all[i].dtype);
        all[i].value = None;
    }
    for &o in outputs {
        out[o].dtype = like(out[o].dtype);
    }
    let inner = prepare(&Prepare {
        inputs: &all,
        outputs: &out,
        ..*p
    })?;
    let (run, needed, count) = (inner.run, inner.scratch, out.len());
    Ok(Prepared {
        run: Box::new(move |cx| {
            let mut slots = SmallVec::<[Slot; 8]>::from_slice(cx.input_slots());
            for &i in inputs {
                slots[i].dtype = like(slots[i].dtype);
            }
            let mut own = SmallVec::<[Slot; 4]>::new();
            for o in 0..count {
                own.push(cx.output_slot(o)?);
            }
            for &o in outputs {
                own[o].dtype = like(own[o].dtype);
            }
            let scratch = cx.scratch::<u8>(needed)?;
            let room = (scratch.as_mut_ptr(), scratch.len());
            // SAFETY: the slots belong to this kernel; bytes of any element are valid as unsigned integers, and the
            // elements that are written are elements that were read.
            run(&unsafe { cx.inner(&slots, &own, room) })
        }),
        ..inner
    })
}

/// A widened operand: its number, and the offset of its elements in the scratch memory.
struct WidenedOperand {
    operand: usize,
    start: usize,
    elements: usize,
}

/// Widened operands of a kernel, one after the other in its scratch memory.
struct WidenedOperands<W> {
    conversion: Conversion<W>,
    inputs: SmallVec<[WidenedOperand; 2]>,
    outputs: SmallVec<[WidenedOperand; 2]>,
    /// Bytes of all widened operands.
    bytes: usize,
    /// Scratch bytes of the kernel itself.
    scratch: usize,
}

/// Runs `prepare`'s kernel with one input of a narrower dtype as `W`.
pub(crate) fn with_input_as<W: Compute + Pod>(
    p: &Prepare<'_>,
    input: usize,
    prepare: &dyn Fn(&Prepare<'_>) -> Result<Prepared, KernelError>,
) -> Result<Prepared, KernelError> {
    by::<W>(p, p.inputs[input].dtype, &[input], &[], prepare)
}

fn by<W: Compute + Pod>(
    p: &Prepare<'_>,
    dtype: DType,
    inputs: &[usize],
    outputs: &[usize],
    prepare: &dyn Fn(&Prepare<'_>) -> Result<Prepared, KernelError>,
) -> Result<Prepared, KernelError> {
    let conversion = W::conversion(dtype).ok_or(KernelError::DType(dtype))?;
    let mut bytes = 0usize;
    let mut part = |operands: &mut [Operand], operand: usize| {
        let own = &mut operands[operand];
        own.dtype = W::DTYPE;
        own.value = None;
        let (start, elements) = (bytes, own.elements());
        let own = elements.saturating_mul(size_of::<W>());
        let padded = own.checked_next_multiple_of(ALIGNMENT);
        bytes = bytes.saturating_add(padded.unwrap_or(usize::MAX));
        WidenedOperand {
            operand,
            start,
            elements,
        }
    };
    let (mut all, mut out) = (p.inputs.to_vec(), p.outputs.to_vec());
    let inputs = inputs.iter().map(|&i| part(&mut all, i)).collect();
    let outputs = outputs.iter().map(|&o| part(&mut out, o)).collect();
    let inner = prepare(&Prepare {
        inputs: &all,
        outputs: &out,
        ..*p
    })?;
    let parts = WidenedOperands {
        conversion,
        inputs,
        outputs,
        bytes,
        scratch: inner.scratch,
    };
    let (run, count) = (inner.run, out.len());
    let (cost, scratch) = (inner.cost, bytes.saturating_add(inner.scratch));
    let prepared = Prepared::new(0, move |cx| parts.run(cx, count, &run));
    Ok(prepared.with_scratch(scratch).with_cost(2 * cost))
}

impl<W: Compute + Pod> WidenedOperands<W> {
    fn run(&self, cx: &KernelCx<'_>, count: usize, run: &RunFn) -> Result<(), KernelError> {
        let c = &self.conversion;
        let scratch = cx.scratch::<u8>(self.bytes + self.scratch)?;
        let (wide, own) = scratch.split_at_mut(self.bytes);
        let mut inputs = SmallVec::<[Slot; 8]>::from_slice(cx.input_slots());
        for part in &self.inputs {
            let slot = &inputs[part.operand];
            if part.elements == 0 {
                continue;
            }
            // SAFETY: the slot is valid for its elements, which are plain numbers; they are read before anything is written.
            let narrow = unsafe { bytes(slot, c.size) };
            let to = &mut wide[part.start..][..part.elements * size_of::<W>()];
            for_chunks(
                cx.pool(),
                bytemuck::cast_slice_mut(to),
                CHUNK,
                &|i, part| {
                    c.widen(&narrow[i * CHUNK * c.size..], part);
                },
            );
        }
        let mut slots = SmallVec::<[Slot; 4]>::new();
        for o in 0..count {
            slots.push(cx.output_slot(o)?);
        }
        let (mut outputs, base) = (slots.clone(), wide.as_mut_ptr());
        let put = |parts: &[WidenedOperand], into: &mut [Slot]| {
            for part in parts {
                into[part.operand] = Slot {
                    ptr: base.wrapping_add(part.start),
                    len: part.elements,
                    ..Slot::empty(W::DTYPE)
                };
            }
        };
        put(&self.inputs, &mut inputs);
        put(&self.outputs, &mut outputs);
        let room = (own.as_mut_ptr(), own.len());
        // SAFETY: the slots belong to this kernel; those in the scratch memory do not overlap, and hold zeros or
        // numbers; the rest of that memory is passed on.
        run(&unsafe { cx.inner(&inputs, &outputs, room) })?;
        for part in &self.outputs {
            if part.elements == 0 {
                continue;
            }
            let slot = &slots[part.operand];
            let from: &[W] =
                bytemuck::cast_slice(&wide[part.start..][..part.elements * size_of::<W>()]);
            // SAFETY: the slot is valid for its elements and was handed out to this kernel alone.
            let narrow = unsafe { bytes_mut(slot, c.size) };
            for_chunks(cx.pool(), narrow, CHUNK * c.size, &|i, part| {
                c.narrow(&from[i * CHUNK..], part);
            });
        }
        Ok(())
    }
}

/// Bytes of a slot's elements, of `size` each.
///
/// # Safety
/// The slot must be valid for them while they are borrowed, and they must not be written.
unsafe fn bytes<'a>(slot: &Slot, size: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(slot.ptr, slot.len * size) }
}

/// Mutable bytes of a slot's elements, of `size` each.
///
/// # Safety
/// As [`bytes`], and they must not be read elsewhere.
unsafe fn bytes_mut<'a>(slot: &Slot, size: usize) -> &'a mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(slot.ptr, slot.len * size) }
}
