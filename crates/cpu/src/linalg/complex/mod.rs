//! Orthogonal decompositions of matrices of complex numbers, in row-major order. What is called a transpose of real matrices is here
//! the transpose of the conjugates.
//!
//! ```
//! use thalweg_cpu::linalg::complex::schur;
//! use thalweg_tensor::num_complex::Complex;
//!
//! // A quarter turn has the eigenvalues i and -i.
//! let one = Complex::from(1.0);
//! let (mut t, mut u) = ([Complex::ZERO, -one, one, Complex::ZERO], [Complex::ZERO; 4]);
//! assert!(schur(2, &mut t, &mut u));
//! assert!((t[0] + t[3]).norm() < 1e-15 && (t[0] * t[3] - one).norm() < 1e-15);
//! ```

mod exponential;
mod jacobi;
mod qr;
mod schur;
mod svd;
#[cfg(test)]
mod tests;
mod vectors;

pub use exponential::{exponential, exponential_scratch};
pub use jacobi::hermitian_eigen;
pub use qr::{qr, qr_scratch};
pub use schur::{MatrixFunction, eigenvectors, schur};
pub use svd::{svd, svd_scratch};
