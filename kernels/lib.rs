//! CUDA C++ sources of the GPU kernels, one file for each family, as text. The device crate compiles them at run time for
//! the card that it finds.
//!
//! ```
//! assert!(thalweg_kernels::UNARY.contains("UNARY(Exp, exp(x))"));
//! ```

/// Common parts of all sources: `thalweg.cuh`.
pub const HEADER: &str = include_str!("thalweg.cuh");

/// Batch normalization and its gradient.
pub const BATCH_NORM: &str = include_str!("batch_norm.cu");

/// Elementwise functions of two operands, with broadcasting.
pub const BINARY: &str = include_str!("binary.cu");

/// Conversions between dtypes.
pub const CAST: &str = include_str!("cast.cu");

/// Convolutions, for devices without a library.
pub const CONVOLUTION: &str = include_str!("convolution.cu");

/// Depthwise convolutions.
pub const DEPTHWISE: &str = include_str!("depthwise.cu");

/// Constants, ranges and one-hot rows.
pub const FILL: &str = include_str!("fill.cu");

/// Rows by index, and reversed sequences.
pub const GATHER: &str = include_str!("gather.cu");

/// Local response normalization.
pub const LRN: &str = include_str!("lrn.cu");

/// Copies by tables of offsets, and sums along axes by lists.
pub const TABLES: &str = include_str!("tables.cu");

/// Strided copies: transposes, slices, paddings and concatenations.
pub const STRIDED_COPY: &str = include_str!("strided_copy.cu");

/// Updates of optimizers.
pub const OPTIMIZER: &str = include_str!("optimizer.cu");

/// Poolings and their gradients.
pub const POOL: &str = include_str!("pool.cu");

/// Argmax and argmin.
pub const ARG_MIN_MAX: &str = include_str!("arg_min_max.cu");

/// GEMM, for devices without a library.
pub const GEMM: &str = include_str!("gemm.cu");

/// Random numbers.
pub const RANDOM: &str = include_str!("random.cu");

/// Reductions.
pub const REDUCE: &str = include_str!("reduce.cu");

/// Updates of rows by sorted row numbers.
pub const ROWS: &str = include_str!("rows.cu");

/// Cumulative sums and products.
pub const SCAN: &str = include_str!("scan.cu");

/// Largest elements of rows.
pub const TOP_K: &str = include_str!("top_k.cu");

/// Stable sorts of row numbers.
pub const SORT: &str = include_str!("sort.cu");

/// Softmax and cross entropy.
pub const SOFTMAX: &str = include_str!("softmax.cu");

/// Elementwise functions of one operand.
pub const UNARY: &str = include_str!("unary.cu");
