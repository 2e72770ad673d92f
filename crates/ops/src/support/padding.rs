//! Padding of tensors to larger dimensions.

use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Memory, StringTensorBuilder, Strings, Tensor, dispatch};

use super::tensors::{AccountedVec, unwritten};

/// A tensor with more elements behind its own in each dimension, up to `dims`: of a scalar's value, or zeros, empty strings
/// and handles of nothing.
///
/// # Errors
/// [`KernelError::DType`] for a value of another dtype.
pub(crate) fn padded(
    memory: &Arc<Memory>,
    item: &Tensor,
    dims: &[usize],
    value: Option<&Tensor>,
) -> Result<Tensor, KernelError> {
    if item.dims() == dims {
        return Ok(item.clone());
    }
    let places = Places::new(item.dims(), dims);
    if item.dtype() == DType::String {
        let value = value.map(Tensor::as_strings).transpose()?;
        let value = value.and_then(Strings::first).unwrap_or_default();
        let mut own = item.as_strings()?.iter();
        let mut all = StringTensorBuilder::new(dims, Some(memory))?;
        for is_own in places {
            let string = if is_own { own.next() } else { None };
            all.push(string.unwrap_or(value))?;
        }
        return Ok(all.finish()?);
    }
    if item.dtype().is_handle() {
        let nothing = unwritten(memory, item.dtype(), &[])?;
        let mut all: AccountedVec<Tensor> = AccountedVec::filled(elements(dims), nothing, memory)?;
        let mut own = (0..item.len()).filter_map(|at| item.handle_at(at));
        for (to, is_own) in all.iter_mut().zip(places) {
            if let Some(handle) = is_own.then(|| own.next()).flatten() {
                *to = handle;
            }
        }
        let all = all.iter().cloned();
        return Ok(Tensor::handles(item.dtype(), dims, all, Some(memory))?);
    }
    let mut all = Tensor::zeros_in(item.dtype(), dims, memory)?;
    dispatch!(item.dtype(), PLAIN, T => {
        let value = value.map(Tensor::to_scalar::<T>).transpose()?;
        let mut own = item.as_slice::<T>()?.iter();
        for (to, is_own) in all.as_mut_slice::<T>()?.iter_mut().zip(places) {
            let own = if is_own { own.next() } else { None };
            if let Some(x) = own.or(value.as_ref()) {
                *to = *x;
            }
        }
    }, else return Err(KernelError::DType(item.dtype())));
    Ok(all)
}

/// For each element of a padded tensor in row-major order: `true` if it is one of the tensor within, whose elements
/// come in the same order.
struct Places<'a> {
    inner: &'a [usize],
    outer: &'a [usize],
    index: Vec<usize>,
    left: usize,
}

impl<'a> Places<'a> {
    fn new(inner: &'a [usize], outer: &'a [usize]) -> Places<'a> {
        Places {
            inner,
            outer,
            index: vec![0; outer.len()],
            left: elements(outer),
        }
    }
}

impl Iterator for Places<'_> {
    type Item = bool;

    fn next(&mut self) -> Option<bool> {
        self.left = self.left.checked_sub(1)?;
        let within = self.index.iter().zip(self.inner).all(|(i, size)| i < size);
        for (i, size) in self.index.iter_mut().zip(self.outer).rev() {
            *i += 1;
            if *i < *size {
                break;
            }
            *i = 0;
        }
        Some(within)
    }
}
