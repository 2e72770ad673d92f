//! Splitting tensors along their first dimension, and joining them along it.

use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Memory, Shape, StringTensorBuilder, Tensor, dispatch};

use crate::support::tensors::taken_handles;

/// Maximum number of rows that become tensors of their own: a tensor without elements may have any number.
const MAX_ROWS: usize = 1 << 24;

/// The `count` elements from index `start` on, in dimensions `dims`.
pub(crate) fn slice_elements(
    memory: &Arc<Memory>,
    from: &Tensor,
    start: usize,
    dims: &[usize],
) -> Result<Tensor, KernelError> {
    let count = checked_elements(dims).unwrap_or(usize::MAX);
    let end = start.checked_add(count).filter(|&end| end <= from.len());
    let end = end.ok_or(KernelError::Argument("elements"))?;
    if from.dtype() == DType::String {
        let mut all = StringTensorBuilder::new(dims, Some(memory))?;
        all.push_all(from.as_strings()?.range(start..end))?;
        return Ok(all.finish()?);
    }
    if from.dtype().is_handle() {
        return taken_handles(memory, from, start..end, dims);
    }
    dispatch!(from.dtype(), PLAIN, T => {
        Ok(Tensor::new_in(dims, &from.as_slice::<T>()?[start..end], Some(memory))?)
    }, else Err(KernelError::DType(from.dtype())))
}

/// Concatenates the elements of all tensors, in dimensions `dims`.
pub(crate) fn joined(
    memory: &Arc<Memory>,
    dtype: DType,
    parts: &[Tensor],
    dims: &[usize],
) -> Result<Tensor, KernelError> {
    if dtype == DType::String {
        let mut all = StringTensorBuilder::new(dims, Some(memory))?;
        for part in parts {
            all.push_all(part.as_strings()?)?;
        }
        return Ok(all.finish()?);
    }
    if dtype.is_handle() {
        let handles =
            (parts.iter()).flat_map(|part| (0..part.len()).filter_map(move |i| part.handle_at(i)));
        return Ok(Tensor::handles(dtype, dims, handles, Some(memory))?);
    }
    dispatch!(dtype, PLAIN, T => {
        let mut all = Tensor::zeros_in(dtype, dims, memory)?;
        let mut rest = all.as_mut_slice::<T>()?;
        for part in parts {
            let from = part.as_slice::<T>()?;
            let Some((here, after)) = rest.split_at_mut_checked(from.len()) else {
                return Err(KernelError::Argument("elements"));
            };
            here.copy_from_slice(from);
            rest = after;
        }
        Ok(all)
    }, else Err(KernelError::DType(dtype)))
}

/// Rows of a tensor, along its first dimension.
pub(crate) fn rows(memory: &Arc<Memory>, tensor: &Tensor) -> Result<Vec<Tensor>, KernelError> {
    let [count, dims @ ..] = tensor.dims() else {
        return Err(KernelError::Invalid(
            "a scalar has no rows: give it a tensor with one dimension at least".to_owned(),
        ));
    };
    if *count > MAX_ROWS {
        return Err(KernelError::Invalid(format!(
            "{count} rows are too many to be values of their own: there may be {MAX_ROWS}"
        )));
    }
    let size = checked_elements(dims).unwrap_or(0);
    (0..*count)
        .map(|i| slice_elements(memory, tensor, i * size, dims))
        .collect()
}

/// Splits a tensor into runs of rows, one run for each length.
pub(crate) fn split(
    memory: &Arc<Memory>,
    tensor: &Tensor,
    lengths: &[i64],
) -> Result<Vec<Tensor>, KernelError> {
    let [count, inner @ ..] = tensor.dims() else {
        return Err(KernelError::Invalid("a scalar cannot be split".to_owned()));
    };
    let size = checked_elements(inner).unwrap_or(0);
    let mut start = 0usize;
    let mut parts = Vec::with_capacity(lengths.len());
    for &length in lengths {
        let length = usize::try_from(length).ok();
        let end = length
            .and_then(|l| start.checked_add(l))
            .filter(|e| e <= count);
        let end = end.ok_or_else(|| {
            KernelError::Invalid(format!(
                "lengths {lengths:?} do not fit {}",
                counted(count, "row")
            ))
        })?;
        let mut dims = vec![end - start];
        dims.extend_from_slice(inner);
        parts.push(slice_elements(memory, tensor, start * size, &dims)?);
        start = end;
    }
    if start != *count {
        return Err(KernelError::Invalid(format!(
            "lengths {lengths:?} leave some of {count} rows over"
        )));
    }
    Ok(parts)
}

/// Stacks tensors of one shape as rows; `shape` is that of a row, in case there are no tensors.
pub(crate) fn stacked(
    memory: &Arc<Memory>,
    dtype: DType,
    items: &[Tensor],
    shape: &Shape,
) -> Result<Tensor, KernelError> {
    let dims = match items.first() {
        Some(first) => first.dims().to_vec(),
        None => {
            let dims = shape.to_dims().ok_or_else(|| {
                KernelError::Invalid(format!(
                    "there is nothing to put together, and the shape {shape} of an element is non-fully-defined"
                ))
            })?;
            dims.to_vec()
        }
    };
    if let Some(other) = items.iter().find(|i| i.dims() != dims) {
        return Err(KernelError::Invalid(
            match other.dims().len() == dims.len() {
                true => format!(
                    "Incompatible shapes during merge: {} vs. {}: elements that are put together need one shape",
                    Shape::known(&dims),
                    other.shape()
                ),
                false => format!(
                    "Incompatible ranks during merge: {} vs. {}: elements that are put together need one shape",
                    dims.len(),
                    other.dims().len()
                ),
            },
        ));
    }
    let mut all = vec![items.len()];
    all.extend_from_slice(&dims);
    joined(memory, dtype, items, &all)
}

/// Concatenates tensors along their first dimension; returns the length of each too.
pub(crate) fn concatenated(
    memory: &Arc<Memory>,
    dtype: DType,
    items: &[Tensor],
    shape: &Shape,
) -> Result<(Tensor, Tensor), KernelError> {
    let inner = match items.first() {
        Some(first) => first.dims().get(1..).map(<[usize]>::to_vec),
        None => shape
            .dims()
            .and_then(|dims| dims.get(1..)?.iter().copied().collect()),
    };
    let inner = inner.ok_or_else(|| {
        KernelError::Invalid(match (items, shape.rank()) {
            ([_, ..], _) => {
                "Concat saw a scalar shape at index 0 but requires at least vectors".to_owned()
            }
            ([], Some(0)) => {
                "Concat requires elements to be at least vectors, found scalars instead".to_owned()
            }
            ([], _) => format!(
                "All except the first dimension must be fully defined when concating an empty tensor list, and the \
                 shape of an element is {shape}"
            ),
        })
    })?;
    let mut lengths = Vec::with_capacity(items.len());
    for item in items {
        match item.dims() {
            [length, rest @ ..] if *rest == inner[..] => lengths.push(*length as i64),
            _ => {
                return Err(KernelError::Invalid(format!(
                    "an element of shape {} does not fit the others, whose rows are {}",
                    item.shape(),
                    Shape::known(&inner)
                )));
            }
        }
    }
    let total = lengths.iter().sum::<i64>() as usize;
    let mut dims = vec![total];
    dims.extend_from_slice(&inner);
    Ok((
        joined(memory, dtype, items, &dims)?,
        Tensor::vector(&lengths),
    ))
}
