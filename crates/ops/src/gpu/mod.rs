//! GPU launches of ops: the functions of `kernels/*.cu` that they launch, and the arguments. Independent of any GPU
//! driver.
//!
//! ```
//! use thalweg_ops::gpu::SOURCES;
//!
//! // Sources that NVRTC compiles for a card on first use of their kernels.
//! let unary = SOURCES.iter().find(|s| s.name == "unary").expect("it is one of them");
//! assert!(unary.text.contains("UNARY(Relu,"));
//! ```

mod arg_min_max;
mod convolution;
mod depthwise;
mod elementwise;
mod fill;
mod gather;
mod gemm;
mod normalize;
mod pool;
mod random;
mod reduce;
mod segments;
mod softmax;
mod strided_copy;
mod variables;

pub(crate) use arg_min_max::position;
pub(crate) use convolution::{convolution, convolution_filter, convolution_input};
pub(crate) use depthwise::{depthwise, depthwise_filter};
pub(crate) use elementwise::{binary, binary_as, broadcast, checked, unary};
pub(crate) use fill::{add_n, cast, fill, one_hot, ones, range, repeated, select, zero, zeros};
pub(crate) use gather::{gather, segment_sum};
pub(crate) use gemm::gemm;
pub(crate) use normalize::{batch_norm, batch_norm_grad, lrn, lrn_grad};
pub(crate) use pool::{pool, pool_argmax, pool_argmax_grad};
pub(crate) use random::random;
pub(crate) use reduce::reduce;
pub(crate) use softmax::{cross_entropy, softmax};
pub(crate) use strided_copy::strided_copy;
pub(crate) use variables::{assign, assign_by, step};

use thalweg_device::gpu::Source;

static UNARY: Source = Source {
    name: "unary",
    text: thalweg_kernels::UNARY,
};
static BINARY: Source = Source {
    name: "binary",
    text: thalweg_kernels::BINARY,
};
static STRIDED_COPY: Source = Source {
    name: "strided_copy",
    text: thalweg_kernels::STRIDED_COPY,
};
static FILL: Source = Source {
    name: "fill",
    text: thalweg_kernels::FILL,
};
static CAST: Source = Source {
    name: "cast",
    text: thalweg_kernels::CAST,
};
static REDUCE: Source = Source {
    name: "reduce",
    text: thalweg_kernels::REDUCE,
};
static SOFTMAX: Source = Source {
    name: "softmax",
    text: thalweg_kernels::SOFTMAX,
};
static OPTIMIZER: Source = Source {
    name: "optimizer",
    text: thalweg_kernels::OPTIMIZER,
};
static POOL: Source = Source {
    name: "pool",
    text: thalweg_kernels::POOL,
};
static GEMM: Source = Source {
    name: "gemm",
    text: thalweg_kernels::GEMM,
};
static CONVOLUTION: Source = Source {
    name: "convolution",
    text: thalweg_kernels::CONVOLUTION,
};
static RANDOM: Source = Source {
    name: "random",
    text: thalweg_kernels::RANDOM,
};
static ARG_MIN_MAX: Source = Source {
    name: "arg_min_max",
    text: thalweg_kernels::ARG_MIN_MAX,
};
static GATHER: Source = Source {
    name: "gather",
    text: thalweg_kernels::GATHER,
};
static BATCH_NORM: Source = Source {
    name: "batch_norm",
    text: thalweg_kernels::BATCH_NORM,
};
static LRN: Source = Source {
    name: "lrn",
    text: thalweg_kernels::LRN,
};
static DEPTHWISE: Source = Source {
    name: "depthwise",
    text: thalweg_kernels::DEPTHWISE,
};

/// All sources of kernels; each includes [`HEADER`].
pub static SOURCES: &[&Source] = &[
    &UNARY,
    &BINARY,
    &STRIDED_COPY,
    &FILL,
    &CAST,
    &REDUCE,
    &SOFTMAX,
    &OPTIMIZER,
    &POOL,
    &GEMM,
    &CONVOLUTION,
    &RANDOM,
    &ARG_MIN_MAX,
    &GATHER,
    &BATCH_NORM,
    &LRN,
    &DEPTHWISE,
];

/// Text of `thalweg.cuh`.
pub static HEADER: &str = thalweg_kernels::HEADER;
