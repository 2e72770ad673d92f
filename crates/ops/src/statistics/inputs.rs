//! Checks that the ops of this family share.

use thalweg_cpu::number::Number;
use thalweg_device::KernelError;
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::Shape;
use thalweg_tensor::shape::checked_elements;

/// Fails unless input `weights` is empty, or has a weight for each row of input 0.
pub(super) fn check_weights(cx: &Infer<'_>, weights: usize) -> Result<(), InferError> {
    let (rows, found) = (cx.shape(0), cx.ranked(weights, 1)?);
    let rows = rows.dims().and_then(|dims| dims.first().copied().flatten());
    let count = found
        .dims()
        .and_then(|dims| dims.first().copied().flatten());
    match (rows, count) {
        (Some(rows), Some(count)) if count != 0 && count != rows => Err(InferError::Mismatch {
            what: "there must be a weight for each row, or none at all".to_owned(),
            left: found,
            right: cx.shape(0).clone(),
        }),
        _ => Ok(()),
    }
}

/// The second dimension of an input of rank 2, where it is known.
pub(super) fn columns(cx: &Infer<'_>, input: usize) -> Result<Option<usize>, InferError> {
    let shape = cx.ranked(input, 2)?;
    Ok(shape.dims().and_then(|dims| dims.get(1).copied().flatten()))
}

/// A matrix that some memory could hold.
pub(super) fn matrix(rows: Option<usize>, columns: Option<usize>) -> Result<Shape, InferError> {
    let shape = Shape::partial([rows, columns]);
    match shape.to_dims().map(|dims| checked_elements(&dims)) {
        Some(None) => Err(InferError::Value {
            input: 0,
            reason: format!("a tensor of shape {shape} is too large"),
        }),
        _ => Ok(shape),
    }
}

/// An error for the first element of a matrix that is no number, or infinite.
pub(super) fn check_finite<T: Number>(
    input: usize,
    values: &[T],
    columns: usize,
) -> Result<(), KernelError> {
    let bad = values.iter().position(|x| !x.to_f64().is_finite());
    bad.map_or(Ok(()), |element| {
        let (row, column) = (element / columns.max(1), element % columns.max(1));
        Err(KernelError::Element {
            input,
            element,
            reason: format!(
                "row {row}, column {column} is {:?}: replace it, or leave the row out",
                values[element].to_f64()
            ),
        })
    })
}

/// An error for the first weight that is negative, infinite or no number.
pub(super) fn check_weight_values<T: Number>(
    input: usize,
    weights: &[T],
) -> Result<(), KernelError> {
    let usable = |w: f64| w >= 0.0 && w.is_finite();
    let bad = weights.iter().position(|w| !usable(w.to_f64()));
    bad.map_or(Ok(()), |element| {
        Err(KernelError::Element {
            input,
            element,
            reason: format!(
                "the weight of row {element} is {:?}: weights are at least 0, and finite",
                weights[element].to_f64()
            ),
        })
    })
}

/// An error for sums that are too large, of numbers that are not.
pub(super) fn too_large() -> KernelError {
    KernelError::Invalid(
        "the squares of its numbers are too large to be summed: scale the columns".to_owned(),
    )
}
