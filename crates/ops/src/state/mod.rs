//! Variables: handles, reads, assignments, scattered updates.

mod assign;
mod build;
mod combine;
mod count_up_to;
mod gather;
mod group;
mod partitioned;
mod ref_variable;
mod row_indices;
mod scatter;
mod scatter_nd;
mod session_tensor;
mod string_slices;
mod temporary;
mod var_handle;
mod variable;

use thalweg_device::Op;

pub use build::StateOps;
pub use partitioned::{PartitionedVariable, Split};
pub use variable::Variable;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &var_handle::VAR_HANDLE,
    &var_handle::READ,
    &var_handle::IS_INITIALIZED,
    &var_handle::DISABLE_COPY_ON_READ,
    &assign::ASSIGN,
    &assign::ASSIGN_ADD,
    &assign::ASSIGN_SUB,
    &gather::GATHER,
    &gather::GATHER_ND,
    &count_up_to::COUNT_UP_TO,
    &count_up_to::REF_COUNT_UP_TO,
    &var_handle::SHAPE,
    &var_handle::DESTROY,
    &temporary::TEMPORARY_VARIABLE,
    &temporary::DESTROY_TEMPORARY_VARIABLE,
    &temporary::TAKE,
    &session_tensor::GET_HANDLE,
    &session_tensor::GET_HANDLE_V2,
    &session_tensor::GET,
    &session_tensor::DELETE,
    &scatter::UPDATE,
    &scatter::REF_UPDATE,
    &scatter::ADD,
    &scatter::REF_ADD,
    &scatter::SUB,
    &scatter::REF_SUB,
    &scatter::MUL,
    &scatter::REF_MUL,
    &scatter::DIV,
    &scatter::REF_DIV,
    &scatter::MIN,
    &scatter::REF_MIN,
    &scatter::MAX,
    &scatter::REF_MAX,
    &scatter_nd::UPDATE,
    &scatter_nd::REF_UPDATE,
    &scatter_nd::ADD,
    &scatter_nd::REF_ADD,
    &scatter_nd::SUB,
    &scatter_nd::REF_SUB,
    &scatter_nd::MIN,
    &scatter_nd::REF_MIN,
    &scatter_nd::MAX,
    &scatter_nd::REF_MAX,
    &ref_variable::VARIABLE_V1,
    &ref_variable::VARIABLE_V2,
    &ref_variable::ASSIGN,
    &ref_variable::ASSIGN_ADD,
    &ref_variable::ASSIGN_SUB,
    &ref_variable::IS_INITIALIZED,
    &ref_variable::IDENTITY,
    &ref_variable::DEBUG_GRADIENT_IDENTITY,
];
