//! Sets along the last dimension of dense and sparse tensors.

mod members;
mod operand;
mod set_operations;
mod set_size;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &set_operations::DENSE_TO_DENSE,
    &set_operations::DENSE_TO_SPARSE,
    &set_operations::SPARSE_TO_SPARSE,
    &set_size::SET_SIZE,
];
