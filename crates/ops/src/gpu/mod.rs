//! What the GPU's kernels of a family share: which functions of `kernels/*.cu` are launched, and
//! with which arguments. It knows no GPU.

mod convolution;
mod depthwise;
mod elementwise;
mod fill;
mod gather;
mod moved;
mod normalize;
mod pool;
mod position;
mod product;
mod random;
mod reduce;
mod rows;
mod segments;
mod state;

pub(crate) use convolution::{convolution, convolution_filter, convolution_input};
pub(crate) use depthwise::{depthwise, depthwise_filter};
pub(crate) use elementwise::{binary, binary_as, broadcast, checked, unary};
pub(crate) use fill::{add_n, cast, fill, one_hot, ones, range, repeated, select, zero, zeros};
pub(crate) use gather::{gather, segment_sum};
pub(crate) use moved::moved;
pub(crate) use normalize::{batch_norm, batch_norm_grad, lrn, lrn_grad};
pub(crate) use pool::{pool, pool_argmax, pool_argmax_grad};
pub(crate) use position::position;
pub(crate) use product::product;
pub(crate) use random::random;
pub(crate) use reduce::reduce;
pub(crate) use rows::{cross_entropy, softmax};
pub(crate) use state::{assign, assign_by, step};

use thalweg_device::gpu::Source;

/// A file of `kernels`.
macro_rules! source {
    ($name:literal) => {
        Source {
            name: $name,
            text: include_str!(concat!("../../../../kernels/", $name, ".cu")),
        }
    };
}

static UNARY: Source = source!("unary");
static BINARY: Source = source!("binary");
static MOVE: Source = source!("move");
static FILL: Source = source!("fill");
static CAST: Source = source!("cast");
static REDUCE: Source = source!("reduce");
static SOFTMAX: Source = source!("softmax");
static OPTIMIZER: Source = source!("optimizer");
static POOL: Source = source!("pool");
static PRODUCT: Source = source!("product");
static CONVOLUTION: Source = source!("convolution");
static RANDOM: Source = source!("random");
static POSITION: Source = source!("position");
static GATHER: Source = source!("gather");
static BATCH_NORM: Source = source!("batch_norm");
static LRN: Source = source!("lrn");
static DEPTHWISE: Source = source!("depthwise");

/// Every source of kernels, and the header that all of them include.
pub static SOURCES: &[&Source] = &[
    &UNARY,
    &BINARY,
    &MOVE,
    &FILL,
    &CAST,
    &REDUCE,
    &SOFTMAX,
    &OPTIMIZER,
    &POOL,
    &PRODUCT,
    &CONVOLUTION,
    &RANDOM,
    &POSITION,
    &GATHER,
    &BATCH_NORM,
    &LRN,
    &DEPTHWISE,
];

/// The text of `thalweg.cuh`.
pub static HEADER: &str = include_str!("../../../../kernels/thalweg.cuh");
