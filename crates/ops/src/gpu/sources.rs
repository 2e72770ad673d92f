//! Sources of the GPU kernels: `kernels/*.cu` and their header.

use thalweg_device::gpu::Source;

pub(super) static UNARY: Source = Source {
    name: "unary",
    text: thalweg_kernels::UNARY,
};
pub(super) static BINARY: Source = Source {
    name: "binary",
    text: thalweg_kernels::BINARY,
};
pub(super) static STRIDED_COPY: Source = Source {
    name: "strided_copy",
    text: thalweg_kernels::STRIDED_COPY,
};
pub(super) static FILL: Source = Source {
    name: "fill",
    text: thalweg_kernels::FILL,
};
pub(super) static CAST: Source = Source {
    name: "cast",
    text: thalweg_kernels::CAST,
};
pub(super) static REDUCE: Source = Source {
    name: "reduce",
    text: thalweg_kernels::REDUCE,
};
pub(super) static SOFTMAX: Source = Source {
    name: "softmax",
    text: thalweg_kernels::SOFTMAX,
};
pub(super) static OPTIMIZER: Source = Source {
    name: "optimizer",
    text: thalweg_kernels::OPTIMIZER,
};
pub(super) static POOL: Source = Source {
    name: "pool",
    text: thalweg_kernels::POOL,
};
pub(super) static GEMM: Source = Source {
    name: "gemm",
    text: thalweg_kernels::GEMM,
};
pub(super) static CONVOLUTION: Source = Source {
    name: "convolution",
    text: thalweg_kernels::CONVOLUTION,
};
pub(super) static RANDOM: Source = Source {
    name: "random",
    text: thalweg_kernels::RANDOM,
};
pub(super) static ARG_MIN_MAX: Source = Source {
    name: "arg_min_max",
    text: thalweg_kernels::ARG_MIN_MAX,
};
pub(super) static GATHER: Source = Source {
    name: "gather",
    text: thalweg_kernels::GATHER,
};
pub(super) static ROWS: Source = Source {
    name: "rows",
    text: thalweg_kernels::ROWS,
};
pub(super) static SCAN: Source = Source {
    name: "scan",
    text: thalweg_kernels::SCAN,
};
pub(super) static TOP_K: Source = Source {
    name: "top_k",
    text: thalweg_kernels::TOP_K,
};
pub(super) static TABLES: Source = Source {
    name: "tables",
    text: thalweg_kernels::TABLES,
};
pub(super) static SORT: Source = Source {
    name: "sort",
    text: thalweg_kernels::SORT,
};
pub(super) static BATCH_NORM: Source = Source {
    name: "batch_norm",
    text: thalweg_kernels::BATCH_NORM,
};
pub(super) static LRN: Source = Source {
    name: "lrn",
    text: thalweg_kernels::LRN,
};
pub(super) static DEPTHWISE: Source = Source {
    name: "depthwise",
    text: thalweg_kernels::DEPTHWISE,
};

/// Text of `thalweg.cuh`.
pub static HEADER: &str = thalweg_kernels::HEADER;
