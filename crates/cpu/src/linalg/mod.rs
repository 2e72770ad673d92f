//! Dense linear algebra on matrices in row-major order: triangular systems, LU and Cholesky decompositions, of real and
//! complex numbers; eigenvalues of symmetric matrices, singular values.
//!
//! Iterations are bounded, and matrices with NaNs or infinities come to an end as others do.
//!
//! ```
//! use thalweg_cpu::Isa;
//! use thalweg_cpu::linalg::{Triangle, cholesky, solve_triangular};
//!
//! // A positive definite system by its Cholesky factor L: L y = b, then L' x = y.
//! let (a, mut x) = ([4.0f64, 2.0, 2.0, 5.0], [8.0, 8.0]);
//! let mut l = [0.0; 4];
//! assert!(cholesky(Isa::detect(), 2, &a, &mut l));
//! assert_eq!(l, [2.0, 0.0, 1.0, 2.0]);
//! let lower = Triangle { n: 2, columns: 1, lower: true, adjoint: false, unit: false };
//! solve_triangular(Isa::detect(), lower, &l, &mut x);
//! solve_triangular(Isa::detect(), Triangle { adjoint: true, ..lower }, &l, &mut x);
//! assert_eq!(x, [1.5, 1.0]);
//! ```

mod cholesky;
pub mod complex;
mod lu;
mod rotation;
mod rows;
mod svd;
mod symmetric_eigen;
#[cfg(test)]
mod tests;
mod triangular;
mod tridiagonal;

pub use cholesky::cholesky;
pub use lu::lu;
pub use svd::{Svd, svd};
pub use symmetric_eigen::{symmetric_eigen, symmetric_eigen_scratch};
pub use triangular::{Triangle, solve_banded, solve_triangular};
pub use tridiagonal::{Elimination, multiply_tridiagonal, solve_tridiagonal};
