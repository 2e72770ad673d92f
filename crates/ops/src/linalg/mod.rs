//! Products, decompositions and inverses of matrices, and systems of linear equations.

mod banded_solve;
mod batch_matmul;
mod build;
mod cholesky;
mod cholesky_grad;
mod cross;
mod determinant;
mod each_matrix;
mod einsum;
mod equation;
mod gemm;
mod general_matrices;
mod lu;
mod matmul;
mod matrices;
mod matrix_nodes;
mod matrix_solve;
mod qr;
mod qr_gradient;
mod self_adjoint_eig;
mod solve_ls;
mod solve_shape;
mod sparse_matmul;
mod svd;
mod svd_gradient;
mod triangular_solve;
mod tridiagonal;

pub use build::LinalgOps;
pub use matmul::FUSED_MAT_MUL;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &matmul::MAT_MUL,
    &sparse_matmul::SPARSE_MAT_MUL,
    &batch_matmul::BATCH_MAT_MUL,
    &batch_matmul::BATCH_MAT_MUL_V2,
    &batch_matmul::BATCH_MAT_MUL_V3,
    &cross::CROSS,
    &einsum::EINSUM,
    &qr::QR,
    &cholesky::CHOLESKY,
    &cholesky::BATCH_CHOLESKY,
    &triangular_solve::MATRIX_TRIANGULAR_SOLVE,
    &triangular_solve::BATCH_MATRIX_TRIANGULAR_SOLVE,
    &matrix_solve::MATRIX_SOLVE,
    &matrix_solve::BATCH_MATRIX_SOLVE,
    &matrix_solve::MATRIX_INVERSE,
    &matrix_solve::BATCH_MATRIX_INVERSE,
    &determinant::MATRIX_DETERMINANT,
    &determinant::BATCH_MATRIX_DETERMINANT,
    &determinant::LOG_MATRIX_DETERMINANT,
    &self_adjoint_eig::SELF_ADJOINT_EIG_V2,
    &self_adjoint_eig::BATCH_SELF_ADJOINT_EIG_V2,
    &self_adjoint_eig::SELF_ADJOINT_EIG,
    &self_adjoint_eig::BATCH_SELF_ADJOINT_EIG,
    &general_matrices::EIG,
    &general_matrices::MATRIX_SQUARE_ROOT,
    &general_matrices::MATRIX_EXPONENTIAL,
    &general_matrices::MATRIX_LOGARITHM,
    &svd::SVD,
    &svd::BATCH_SVD,
    &cholesky_grad::CHOLESKY_GRAD,
    &cholesky_grad::BATCH_CHOLESKY_GRAD,
    &lu::LU,
    &solve_ls::MATRIX_SOLVE_LS,
    &solve_ls::BATCH_MATRIX_SOLVE_LS,
    &banded_solve::BANDED_TRIANGULAR_SOLVE,
    &tridiagonal::TRIDIAGONAL_SOLVE,
    &tridiagonal::TRIDIAGONAL_MAT_MUL,
];
