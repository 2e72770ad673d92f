//! Cholesky decompositions: a positive definite matrix as the product of a lower triangular one and its transpose, of
//! complex numbers the transpose of its conjugates, row by row (Golub and Van Loan, *Matrix Computations*, 4.2).

use super::rows::inner;
use crate::isa::{Isa, Vectorize};
use crate::number::Field;

/// The Cholesky factor `l` of `a` (both `[n, n]`), of which only the lower triangle is read. `false` where a pivot is not
/// positive: then `a` is not positive definite, and `l` not complete. NaNs go into `l`.
///
/// # Panics
/// If a slice is shorter than `n * n`.
pub fn cholesky<T: Field>(isa: Isa, n: usize, a: &[T], l: &mut [T]) -> bool {
    isa.run(Factor(n, &a[..n * n], &mut l[..n * n]))
}

struct Factor<'a, T>(usize, &'a [T], &'a mut [T]);

impl<T: Field> Vectorize for Factor<'_, T> {
    type Out = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let Factor(n, a, l) = self;
        l.fill(T::ZERO);
        for i in 0..n {
            let (above, row) = l.split_at_mut(i * n);
            let a = &a[i * n..][..n];
            for (j, other) in above.chunks_exact(n).enumerate() {
                row[j] = (a[j] - inner(&row[..j], &other[..j])) / other[j];
            }
            let pivot = (a[i] - inner(&row[..i], &row[..i])).real();
            if pivot <= 0.0 {
                return false;
            }
            row[i] = T::from_real(pivot.sqrt());
        }
        true
    }
}
