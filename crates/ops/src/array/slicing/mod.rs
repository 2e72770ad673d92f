//! Slices, strided slices, and the index types of `ArrayOps::at`.

pub(crate) mod index;
mod slice;
mod stride_spec;
mod strided_slice;
mod strided_slice_assign;
mod strided_slice_update;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &slice::SLICE,
    &strided_slice::STRIDED_SLICE,
    &strided_slice::STRIDED_SLICE_GRAD,
    &strided_slice_update::TENSOR_STRIDED_SLICE_UPDATE,
    &strided_slice_assign::RESOURCE_STRIDED_SLICE_ASSIGN,
    &strided_slice_assign::STRIDED_SLICE_ASSIGN,
];
