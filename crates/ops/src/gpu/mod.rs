//! GPU launches of ops: the functions of `kernels/*.cu` that they launch, and the arguments. Independent of any GPU
//! driver.

mod arg_min_max;
mod convolution;
mod convolution_calls;
mod depthwise;
mod einsum;
mod elementwise;
mod fill;
mod gather;
mod gemm;
mod normalize;
mod pool;
mod random;
mod reduce;
mod rows;
mod scan;
mod segments;
mod softmax;
mod sources;
mod strided_copy;
mod tables;
mod variables;

pub(crate) use arg_min_max::position;
pub(crate) use convolution::convolution;
pub(crate) use depthwise::{depthwise, depthwise_filter};
pub(crate) use einsum::{EinsumGemm, EinsumTensor, einsum};
pub(crate) use elementwise::{binary, binary_as, broadcast, check_numerics, checked, clip, unary};
pub(crate) use fill::{
    add_n, band_part, cast, fill, one_hot, ones, range, relu_grad_sum, repeated, select,
    select_slices, zeros,
};
pub(crate) use gather::{gather, gather_of, reverse_sequence};
pub(crate) use gemm::gemm;
pub(crate) use normalize::{batch_norm, batch_norm_grad, lrn, lrn_grad};
pub(crate) use pool::{pool, pool_argmax, pool_argmax_grad};
pub(crate) use random::{random, stateless};
pub(crate) use reduce::reduce;
pub(crate) use rows::{
    BadIndices, IndexedRows, scatter, scatter_nd, scatter_nd_variable, segment_sum, sparse_step,
};
pub(crate) use scan::{in_top_k, scan, top_k};
pub(crate) use softmax::{cross_entropy, softmax};
pub use sources::HEADER;
pub(crate) use strided_copy::strided_copy;
pub(crate) use tables::{AlongAxis, AxisLists, along_axes, gather_by_tables, scatter_by_tables};
pub(crate) use variables::{assign, assign_by, step};
