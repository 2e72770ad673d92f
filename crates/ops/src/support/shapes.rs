//! Shape rules of several ops.

use thalweg_graph::{Infer, InferError};
use thalweg_tensor::Shape;

/// Each output has the shape of input 0.
pub(crate) fn unchanged(cx: &mut Infer<'_>) -> Result<(), InferError> {
    for i in 0..cx.outputs() {
        cx.set(i, cx.shape(0).clone());
    }
    Ok(())
}

/// The output has the common shape of all inputs.
pub(crate) fn all_the_same(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let mut shape = Shape::unknown();
    for i in 0..cx.inputs() {
        shape = shape
            .merge(cx.shape(i))
            .ok_or_else(|| InferError::Mismatch {
                what: format!("input {i} must have the shape of those before it"),
                left: shape.clone(),
                right: cx.shape(i).clone(),
            })?;
    }
    cx.set(0, shape);
    Ok(())
}

/// The output has the shape of inputs 0 and 1, broadcast.
pub(crate) fn broadcast(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = cx
        .shape(0)
        .broadcast(cx.shape(1))
        .ok_or_else(|| InferError::Broadcast {
            left: cx.shape(0).clone(),
            right: cx.shape(1).clone(),
        })?;
    cx.set(0, shape);
    Ok(())
}

/// Every output is a scalar.
pub(crate) fn scalar(cx: &mut Infer<'_>) -> Result<(), InferError> {
    for i in 0..cx.outputs() {
        cx.set(i, Shape::scalar());
    }
    Ok(())
}

/// Fails unless input `i` is a scalar.
pub(crate) fn expect_scalar(cx: &Infer<'_>, i: usize) -> Result<(), InferError> {
    cx.ranked(i, 0).map(drop)
}

/// Fails unless an attribute is at least a number. It may be as large as sizes are, unlike the counts of lists.
pub(crate) fn expect_at_least(
    cx: &Infer<'_>,
    attr: &'static str,
    least: i64,
) -> Result<(), InferError> {
    let value = cx.attrs().int(attr);
    match value >= least {
        true => Ok(()),
        false => Err(InferError::Attr {
            attr,
            reason: format!("is {value}, but must be at least {least}"),
        }),
    }
}
