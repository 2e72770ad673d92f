//! Ragged tensors: values and row splits. Ranges, lookups and conversions.

mod gather;
mod range;
mod row_splits;
mod to_sparse;
mod to_tensor;
mod variants;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &range::RANGE,
    &gather::GATHER,
    &to_sparse::TO_SPARSE,
    &to_tensor::TO_TENSOR,
    &variants::TO_VARIANT,
    &variants::FROM_VARIANT,
    &variants::VARIANT_GRADIENT,
];
