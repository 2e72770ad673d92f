//! Helpers of kernels on whole tensors: sums, bytes, index vectors, lists that count against a memory.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Memory, Reservation, Tensor, TensorError, dispatch};

use thalweg_cpu::number::Arithmetic;

/// The sum of two tensors of one dtype and shape, in place of the first one if it is not shared.
pub(crate) fn sum(mut to: Tensor, more: &Tensor) -> Result<Tensor, KernelError> {
    if to.dims() != more.dims() || to.dtype() != more.dtype() {
        return Err(KernelError::Invalid(format!(
            "{}{} and {}{} cannot be added: they must have one dtype and shape",
            to.dtype(),
            to.shape(),
            more.dtype(),
            more.shape()
        )));
    }
    dispatch!(to.dtype(), ALL_NUMBERS, T => {
        let elements = to.as_mut_slice::<T>()?;
        for (to, &x) in elements.iter_mut().zip(more.as_slice::<T>()?) {
            *to = Arithmetic::add(*to, x);
        }
    }, else return Err(KernelError::DType(to.dtype())));
    Ok(to)
}

/// Bytes of a numeric tensor.
///
/// # Errors
/// [`TensorError::DType`] if the tensor has another dtype.
pub(crate) fn bytes_mut(tensor: &mut Tensor, dtype: DType) -> Result<&mut [u8], KernelError> {
    let found = tensor.dtype();
    if found != dtype {
        return Err(TensorError::DType {
            asked: dtype,
            found,
        }
        .into());
    }
    dispatch!(dtype, ALL_NUMBERS, T => Ok(bytemuck::cast_slice_mut(tensor.as_mut_slice::<T>()?)), else
        Err(KernelError::DType(dtype)))
}

/// Integers as a vector in the device's memory, with the dtype of attribute `attr`, or `i32` without it.
pub(crate) fn integers(
    cx: &TensorCx<'_>,
    attr: &str,
    values: impl ExactSizeIterator<Item = i64>,
) -> Result<Tensor, KernelError> {
    let dtype = cx.attrs().dtype(attr).unwrap_or(DType::I32);
    let mut all = cx.zeros(dtype, &[values.len()])?;
    if dtype == DType::I64 {
        for (to, value) in all.as_mut_slice::<i64>()?.iter_mut().zip(values) {
            *to = value;
        }
        return Ok(all);
    }
    for (to, value) in all.as_mut_slice::<i32>()?.iter_mut().zip(values) {
        *to = i32::try_from(value).map_err(|_| {
            KernelError::Invalid(format!(
                "{value} is more than an i32 holds: ask for i64 as {attr}"
            ))
        })?;
    }
    Ok(all)
}

/// A reservation of bytes in a memory.
///
/// # Errors
/// [`KernelError::Memory`] if its limit does not allow it.
pub(crate) fn reserved(
    bytes: usize,
    memory: Option<&Arc<Memory>>,
) -> Result<Reservation, KernelError> {
    let mut reserved = Reservation::of(memory);
    match reserved.grow(bytes) {
        true => Ok(reserved),
        false => Err(KernelError::Memory { bytes }),
    }
}

/// A vector whose length the graph determines: its bytes count against a memory limit, and exceeding that or the
/// system's memory is an error.
pub(crate) struct AccountedVec<T> {
    elements: Vec<T>,
    taken: Reservation,
}

impl<T: Clone> AccountedVec<T> {
    /// An empty vector.
    pub(crate) fn new(memory: &Arc<Memory>) -> AccountedVec<T> {
        AccountedVec {
            elements: Vec::new(),
            taken: Reservation::of(Some(memory)),
        }
    }

    /// A vector of `len` copies of a value.
    pub(crate) fn filled(
        len: usize,
        value: T,
        memory: &Arc<Memory>,
    ) -> Result<AccountedVec<T>, KernelError> {
        let mut all = AccountedVec::new(memory);
        all.grow(len, value)?;
        Ok(all)
    }

    /// Extends it to `len` elements, if it is shorter.
    pub(crate) fn grow(&mut self, len: usize, value: T) -> Result<(), KernelError> {
        let more = len.saturating_sub(self.elements.len());
        let bytes = more.saturating_mul(size_of::<T>());
        if !self.taken.grow(bytes) {
            return Err(KernelError::Memory { bytes });
        }
        if self.elements.try_reserve(more).is_err() {
            self.taken.shrink(bytes);
            return Err(KernelError::Memory { bytes });
        }
        self.elements.resize(len.max(self.elements.len()), value);
        Ok(())
    }

    /// Frees the elements from `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        let freed = self.elements.len().saturating_sub(len);
        self.elements.truncate(len);
        self.elements.shrink_to_fit();
        self.taken.shrink(freed * size_of::<T>());
    }

    /// Frees all elements.
    pub(crate) fn clear(&mut self) {
        self.taken.shrink(self.elements.len() * size_of::<T>());
        self.elements = Vec::new();
    }
}

impl<T> Deref for AccountedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T> DerefMut for AccountedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

/// Slices of `inner` elements of a tensor, by row number, as a tensor of dimensions `dims`.
pub(crate) fn take_slices(
    cx: &TensorCx<'_>,
    tensor: &Tensor,
    rows: &[usize],
    inner: usize,
    dims: &[usize],
) -> Result<Tensor, KernelError> {
    if tensor.dtype() == DType::String {
        let strings = tensor.as_strings()?;
        let (mut all, mut stop) = (cx.string_tensor(dims)?, cx.stop_check());
        for row in rows {
            stop.tick()?;
            all.push_all(strings.range(row * inner..(row + 1) * inner))?;
        }
        return Ok(all.finish()?);
    }
    if tensor.dtype().is_handle() {
        let all = rows.iter().flat_map(|row| row * inner..(row + 1) * inner);
        return taken_handles(cx.memory(), tensor, all, dims);
    }
    dispatch!(tensor.dtype(), PLAIN, T => {
        let from = tensor.as_slice::<T>()?;
        let mut taken = cx.zeros(tensor.dtype(), dims)?;
        let to = taken.as_mut_slice::<T>()?;
        if to.len() != rows.len() * inner {
            return Err(KernelError::Argument("rows"));
        }
        match inner {
            1 => to.iter_mut().zip(rows).for_each(|(to, &row)| *to = from[row]),
            _ => to
                .chunks_exact_mut(inner.max(1))
                .zip(rows)
                .for_each(|(to, row)| to.copy_from_slice(&from[row * inner..][..inner])),
        }
        Ok(taken)
    }, else Err(KernelError::DType(tensor.dtype())))
}

/// The handles at these places of a resource or variant tensor.
pub(crate) fn taken_handles(
    memory: &Arc<Memory>,
    from: &Tensor,
    places: impl Iterator<Item = usize>,
    dims: &[usize],
) -> Result<Tensor, KernelError> {
    let handles = places.filter_map(|i| from.handle_at(i));
    Ok(Tensor::handles(from.dtype(), dims, handles, Some(memory))?)
}

/// Zeros for an element that nothing was written to; of variants and resources, those that hold nothing.
pub(crate) fn unwritten(
    memory: &Arc<Memory>,
    dtype: DType,
    dims: &[usize],
) -> Result<Tensor, KernelError> {
    match dtype.is_handle() {
        true => {
            let nothing = Tensor::handle(dtype, Arc::new(()))?;
            let count = checked_elements(dims).unwrap_or(usize::MAX);
            let all = std::iter::repeat_n(nothing, count);
            Ok(Tensor::handles(dtype, dims, all, Some(memory))?.into_weak(&mut drop)?)
        }
        false => Ok(Tensor::zeros_in(dtype, dims, memory)?),
    }
}
