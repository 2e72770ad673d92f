//! Values in slots: copies, and checks for values that are not finite.

use thalweg_device::{KernelError, Slot};
use thalweg_tensor::{DType, Tensor, dispatch};

/// Copies a slot's elements into a tensor of the same dtype and length.
pub(crate) fn copy(slot: Slot, tensor: &mut Tensor) -> Result<(), KernelError> {
    dispatch!(slot.dtype, PLAIN, T => {
        let out = tensor.as_mut_slice::<T>()?;
        if out.len() != slot.len {
            return Err(KernelError::Argument("a value of this size"));
        }
        if slot.len > 0 {
            // SAFETY: a slot that is filled is valid for its elements, which are of its dtype; the caller waits for the
            // instruction that fills it. The tensor is another allocation.
            out.copy_from_slice(unsafe { std::slice::from_raw_parts(slot.ptr.cast::<T>(), slot.len) });
        }
        Ok(())
    }, else Err(KernelError::DType(slot.dtype)))
}

/// A slot's elements as bytes.
///
/// # Safety
/// The slot is filled and stays so while the bytes are read.
pub(crate) unsafe fn bytes<'a>(slot: Slot) -> &'a [u8] {
    match slot.len {
        0 => &[],
        // SAFETY: by the caller's promise; elements of plain dtypes have no bytes between them.
        len => unsafe { std::slice::from_raw_parts(slot.ptr.cast(), len * slot.dtype.size()) },
    }
}

/// The first element that is not finite, and its value.
pub(crate) fn first_not_finite(slot: Slot) -> Option<(usize, f64)> {
    fn find<T: Copy>(slot: Slot, value: impl Fn(T) -> f64) -> Option<(usize, f64)> {
        // SAFETY: as in `copy`.
        let all = unsafe { std::slice::from_raw_parts(slot.ptr.cast::<T>(), slot.len) };
        let values = all.iter().map(|&v| value(v)).enumerate();
        values.into_iter().find(|(_, v)| !v.is_finite())
    }
    if slot.len == 0 || slot.ptr.is_null() {
        return None;
    }
    match slot.dtype {
        DType::F16 => find(slot, half::f16::to_f64),
        DType::BF16 => find(slot, half::bf16::to_f64),
        DType::F32 => find(slot, |v: f32| f64::from(v)),
        DType::F64 => find(slot, |v: f64| v),
        _ => None,
    }
}

/// Copies a slot's elements into another slot of the same dtype and length.
///
/// # Safety
/// Both are valid and apart, the first is filled, and nothing else uses the second.
pub(crate) unsafe fn copy_slot(from: Slot, to: Slot) -> Result<(), KernelError> {
    if from.dtype != to.dtype || from.len != to.len {
        return Err(KernelError::Argument("a value of this dtype and size"));
    }
    if from.len > 0 {
        // SAFETY: by the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(from.ptr, to.ptr, from.len * from.dtype.size());
        }
    }
    Ok(())
}
