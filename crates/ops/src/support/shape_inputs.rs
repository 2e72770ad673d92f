//! Inputs of shape rules: lengths of vectors, known integers, and errors about them.

use thalweg_device::{KernelError, Prepared};
use thalweg_graph::infer::MAX_SHAPE_ELEMENTS;
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

/// The error for an invalid value of input `input`.
pub(crate) fn invalid_value(input: usize, reason: impl Into<String>) -> InferError {
    InferError::Value {
        input,
        reason: reason.into(),
    }
}

/// An error of a shape rule as one of a kernel.
pub(crate) fn kernel_error(error: InferError) -> KernelError {
    KernelError::Invalid(error.to_string())
}

/// Returns `shape`, unless it is known and has too many elements: an error about input `input`.
pub(crate) fn checked_shape(input: usize, shape: Shape) -> Result<Shape, InferError> {
    match shape.to_dims() {
        Some(dims) if checked_elements(&dims).is_none_or(|n| n > isize::MAX as usize) => Err(
            invalid_value(input, format!("a tensor of shape {shape} is too large")),
        ),
        _ => Ok(shape),
    }
}

/// Length of input `i`, a vector; `None` if unknown.
pub(crate) fn vector_length(cx: &Infer<'_>, i: usize) -> Result<Option<usize>, InferError> {
    let length = cx.ranked(i, 1)?.dim(0);
    match length {
        Some(n) if n > MAX_SHAPE_ELEMENTS => Err(invalid_value(
            i,
            format!("it describes {n} dimensions, and a tensor has at most {MAX_SHAPE_ELEMENTS}"),
        )),
        _ => Ok(length),
    }
}

/// Integers of input `i`, a vector with one entry for each dimension, if known.
pub(crate) fn ints_per_dim(cx: &Infer<'_>, i: usize) -> Result<Option<Vec<i64>>, InferError> {
    vector_length(cx, i)?;
    Ok(cx.ints(i))
}

/// Integer of input `i`, a scalar, if known.
pub(crate) fn scalar_int(cx: &Infer<'_>, i: usize) -> Result<Option<i64>, InferError> {
    cx.ranked(i, 0)?;
    Ok(cx.ints(i).and_then(|v| v.first().copied()))
}

/// Integer of input `i`, a scalar or a tensor of one element, if known.
pub(crate) fn single_int(cx: &Infer<'_>, i: usize) -> Result<Option<i64>, InferError> {
    if cx.shape(i).elements().is_some_and(|n| n != 1) {
        return Err(InferError::Rank {
            input: i,
            expected: "0".to_owned(),
            found: cx.shape(i).clone(),
        });
    }
    Ok(cx.ints(i).and_then(|v| v.first().copied()))
}

/// Integers as a tensor of `i32` or `i64`; `None` if one does not fit.
pub(crate) fn int_tensor(dtype: DType, dims: &[usize], values: &[i64]) -> Option<Tensor> {
    match dtype {
        DType::I32 => {
            let narrow: Option<Vec<i32>> = values.iter().map(|&v| i32::try_from(v).ok()).collect();
            Tensor::new(dims, &narrow?).ok()
        }
        _ => Tensor::new(dims, values).ok(),
    }
}

/// Integers as the value of an output whose dtype attribute is `attr`; an error about it if one does not fit.
pub(crate) fn int_tensor_for(
    attr: &'static str,
    dtype: DType,
    dims: &[usize],
    values: &[i64],
) -> Result<Tensor, InferError> {
    int_tensor(dtype, dims, values).ok_or_else(|| InferError::Attr {
        attr,
        reason: format!("{values:?} does not fit in {dtype}: use i64"),
    })
}

/// Kernel whose outputs are known when it is prepared.
pub(crate) fn known_outputs(dtype: DType, outputs: Vec<Tensor>) -> Result<Prepared, KernelError> {
    let elements = outputs.iter().map(Tensor::len).sum();
    dispatch!(dtype, [I32 I64], T => Ok(Prepared::new(elements, move |cx| {
        for (i, value) in outputs.iter().enumerate() {
            cx.output::<T>(i)?.copy_from_slice(value.as_slice()?);
        }
        Ok(())
    })), else Err(KernelError::DType(dtype)))
}

/// The shape that host input `i` describes.
pub(crate) fn described_shape(cx: &Infer<'_>, i: usize) -> Result<Shape, InferError> {
    let rank = vector_length(cx, i)?;
    let Some(dims) = cx.elements(i) else {
        return Ok(rank.map_or(Shape::unknown(), Shape::of_rank));
    };
    let shape = partial_shape(&dims);
    if let Some(bad) = dims.iter().flatten().find(|&&d| d < 0) {
        return Err(InferError::Value {
            input: i,
            reason: format!("dimension {bad} is negative"),
        });
    }
    if shape.is_known() && shape.elements().is_none() {
        return Err(InferError::Value {
            input: i,
            reason: format!("{shape} has more elements than can be counted"),
        });
    }
    Ok(shape)
}

/// The shape with these dimensions; those that are unknown or negative are unknown.
pub(crate) fn partial_shape(dims: &[Option<i64>]) -> Shape {
    let known = |d: &Option<i64>| d.and_then(|d| usize::try_from(d).ok());
    Shape::partial(dims.iter().map(known))
}
