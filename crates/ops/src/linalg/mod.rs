//! Products and decompositions of matrices.

mod batch_matmul;
mod build;
mod cross;
mod einsum;
mod equation;
mod gemm;
mod matmul;
mod qr;

pub use build::LinalgOps;
pub use matmul::FUSED_MAT_MUL;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &matmul::MAT_MUL,
    &batch_matmul::BATCH_MAT_MUL,
    &batch_matmul::BATCH_MAT_MUL_V2,
    &batch_matmul::BATCH_MAT_MUL_V3,
    &cross::CROSS,
    &einsum::EINSUM,
    &qr::QR,
];
