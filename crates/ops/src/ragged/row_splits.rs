//! Row splits of ragged tensors.

use thalweg_device::{KernelError, TensorCx};
use thalweg_graph::op::{AttrDef, type_attr_or};
use thalweg_tensor::DType;

/// Dtype of row splits.
pub(super) const SPLITS: AttrDef = type_attr_or("Tsplits", DType::INDICES, DType::I64);

/// The error for inputs that the op cannot take.
pub(super) fn invalid(why: impl Into<String>) -> KernelError {
    KernelError::Invalid(why.into())
}

/// The row splits at input `i`, which ascend from 0.
///
/// # Errors
/// [`KernelError::Invalid`] if they do not.
pub(super) fn row_splits(cx: &TensorCx<'_>, i: usize) -> Result<Vec<usize>, KernelError> {
    let found = cx.tensor(i)?;
    if found.dims().len() != 1 || found.is_empty() {
        return Err(invalid(format!(
            "Invalid ragged splits: they must be a vector of one or more, and input {i} has shape {}",
            found.shape()
        )));
    }
    let splits = cx.ints(i)?;
    if splits[0] != 0 {
        return Err(invalid(format!(
            "First value of ragged splits must be 0. Got {} in input {i}",
            splits[0]
        )));
    }
    if !splits.is_sorted() {
        return Err(invalid(format!(
            "Ragged splits should be non decreasing: those of input {i} are not"
        )));
    }
    Ok(splits.into_iter().map(|end| end as usize).collect())
}

/// The row splits at inputs `0..count`, each over the rows of the next, and the last over the rows of the tensor at input
/// `count`.
///
/// # Errors
/// [`KernelError::Invalid`] if one does not fit the next.
pub(super) fn nested_splits(
    cx: &TensorCx<'_>,
    count: usize,
) -> Result<Vec<Vec<usize>>, KernelError> {
    let all = (0..count).map(|i| row_splits(cx, i));
    let all: Vec<Vec<usize>> = all.collect::<Result<_, _>>()?;
    let Some(&rows) = cx.tensor(count)?.dims().first() else {
        return Err(invalid(
            "the values of a ragged tensor must not be a scalar",
        ));
    };
    let lengths = all
        .iter()
        .skip(1)
        .map(|splits| splits.len() - 1)
        .chain([rows]);
    for (i, (splits, length)) in all.iter().zip(lengths).enumerate() {
        let end = splits[splits.len() - 1];
        if end != length {
            return Err(invalid(format!(
                "Final value of ragged splits must match the length the corresponding ragged array. Got {end} in input {i}, \
                 and {length} rows"
            )));
        }
    }
    Ok(all)
}
