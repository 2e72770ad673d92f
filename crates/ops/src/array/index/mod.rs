//! Lookups and updates by index: Gather, Scatter, OneHot, Where.

mod gather;
mod gather_gradient;
mod gather_nd;
mod index_nd;
mod inplace;
mod one_hot;
mod scatter_nd;
mod unravel;
mod where_nonzero;

pub(crate) use gather_gradient::of_slices;
use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &gather::GATHER,
    &gather::GATHER_V1,
    &gather_nd::GATHER_ND,
    &scatter_nd::SCATTER_ND,
    &scatter_nd::TENSOR_SCATTER_UPDATE,
    &scatter_nd::TENSOR_SCATTER_ADD,
    &scatter_nd::SCATTER_ND_NON_ALIASING_ADD,
    &unravel::UNRAVEL_INDEX,
    &scatter_nd::TENSOR_SCATTER_SUB,
    &scatter_nd::TENSOR_SCATTER_MAX,
    &scatter_nd::TENSOR_SCATTER_MIN,
    &one_hot::ONE_HOT,
    &where_nonzero::WHERE,
    &inplace::UPDATE,
    &inplace::ADD,
    &inplace::SUB,
];
