//! Sparse tensors: indices, values and a shape. Conversions, products, reductions, parts and joins.

mod add;
mod concat_split;
mod count;
mod cross;
mod csr;
mod dense_elementwise;
mod dense_matmul;
mod edit_distance;
mod fill_empty_rows;
mod ragged_cross;
mod reduce;
mod reorder_reshape;
mod serialized_sparse;
mod slice;
mod softmax;
mod sparse_input;
mod sparse_to_dense;
mod tensors_map;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &sparse_to_dense::SPARSE_TO_DENSE,
    &dense_matmul::MAT_MUL,
    &dense_elementwise::TENSOR_DENSE_ADD,
    &dense_elementwise::CWISE_ADD,
    &dense_elementwise::CWISE_MUL,
    &dense_elementwise::CWISE_DIV,
    &reorder_reshape::REORDER,
    &reorder_reshape::RESHAPE,
    &fill_empty_rows::SPARSE,
    &fill_empty_rows::SPARSE_GRAD,
    &fill_empty_rows::RAGGED,
    &fill_empty_rows::RAGGED_GRAD,
    &concat_split::CONCAT,
    &concat_split::SPLIT,
    &slice::SLICE,
    &slice::SLICE_GRAD,
    &add::ADD,
    &add::ADD_GRAD,
    &add::MAXIMUM,
    &add::MINIMUM,
    &reduce::SUM,
    &reduce::MAX,
    &reduce::SUM_SPARSE,
    &reduce::MAX_SPARSE,
    &softmax::SOFTMAX,
    &edit_distance::EDIT_DISTANCE,
    &count::DENSE_COUNT,
    &count::SPARSE_COUNT,
    &count::RAGGED_COUNT,
    &count::SPARSE_BINCOUNT,
    &count::RAGGED_BINCOUNT,
    &cross::CROSS,
    &cross::CROSS_V2,
    &cross::CROSS_HASHED,
    &ragged_cross::RAGGED,
    &csr::convert::FROM_SPARSE,
    &csr::convert::FROM_DENSE,
    &csr::convert::TO_SPARSE,
    &csr::convert::TO_DENSE,
    &csr::convert::COMPONENTS,
    &csr::convert::NNZ,
    &csr::convert::ZEROS,
    &csr::products::MAT_MUL,
    &csr::products::SPARSE_MAT_MUL,
    &csr::products::TRANSPOSE,
    &csr::elementwise::ADD,
    &csr::elementwise::MUL,
    &csr::elementwise::SOFTMAX,
    &csr::elementwise::SOFTMAX_GRAD,
    &tensors_map::ADD_ONE,
    &tensors_map::ADD_MANY,
    &tensors_map::TAKE_MANY,
    &serialized_sparse::SERIALIZE_SPARSE,
    &serialized_sparse::SERIALIZE_MANY_SPARSE,
    &serialized_sparse::DESERIALIZE_SPARSE,
    &serialized_sparse::DESERIALIZE_MANY_SPARSE,
];
