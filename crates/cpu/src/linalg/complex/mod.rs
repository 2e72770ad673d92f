//! Linear algebra on matrices of complex numbers, in row-major order. What is called a transpose of real matrices is here
//! the transpose of the conjugates.
//!
//! ```
//! use thalweg_tensor::num_complex::Complex;
//! use thalweg_cpu::linalg::complex::cholesky;
//!
//! let one = Complex::from(1.0);
//! let a = [one * 2.0, -Complex::i(), Complex::i(), one];
//! let mut l = [Complex::ZERO; 4];
//! assert!(cholesky(2, &a, &mut l));
//! assert!((l[2] - Complex::i() / 2f64.sqrt()).norm() < 1e-15);
//! ```

mod factors;
mod jacobi;
mod qr;
mod schur;
mod svd;
#[cfg(test)]
mod tests;
mod vectors;

pub use factors::{cholesky, lu, solve_triangular};
pub use jacobi::hermitian_eigen;
pub use qr::{qr, qr_scratch};
pub use schur::{MatrixFunction, eigenvectors, schur};
pub use svd::{svd, svd_scratch};
