//! Helpers of the ops on images.

use thalweg_device::KernelError;
use thalweg_graph::{Infer, InferError};
use thalweg_image::ImageError;
use thalweg_tensor::{DType, Shape};

use crate::support::shape_inputs::invalid_value;

/// Dtypes of pixels, as most ops on images take them.
pub(super) const PIXELS: &[DType] = &[
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::BF16,
];

/// An error of an image as one of a kernel.
pub(super) fn image_error(error: ImageError) -> KernelError {
    KernelError::Invalid(error.to_string())
}

/// Shape of input `i`, unless its rank is known and less than `rank`.
pub(super) fn at_least(cx: &Infer<'_>, i: usize, rank: usize) -> Result<Shape, InferError> {
    let shape = cx.shape(i);
    match shape.rank() {
        Some(found) if found < rank => Err(InferError::Rank {
            input: i,
            expected: format!("at least {rank}"),
            found: shape.clone(),
        }),
        _ => Ok(shape.clone()),
    }
}

/// An error unless the last dimension of input `i`, where it is known, is `n`.
pub(super) fn expect_last(cx: &Infer<'_>, i: usize, n: usize) -> Result<(), InferError> {
    let shape = cx.shape(i);
    let last = shape
        .rank()
        .and_then(|rank| shape.dim(rank.checked_sub(1)?));
    match last {
        Some(found) if found != n => Err(invalid_value(
            i,
            format!("its last dimension is {found}, but must be {n}"),
        )),
        _ => Ok(()),
    }
}
