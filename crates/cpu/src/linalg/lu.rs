//! LU decompositions with partial pivoting, by rows (Golub and Van Loan, *Matrix Computations*, 3.4).

use super::rows::{add_scaled, two_rows};
use crate::isa::{Isa, Vectorize};
use crate::number::Field;

/// Replaces `a` (`[n, n]`) by its factors: an upper triangular one, and below the diagonal a lower triangular one with ones
/// on its diagonal. Calls `swapped` for each pair of rows that change places, in order; it may do the same with other rows.
///
/// If `a` has no inverse, the upper factor has a zero on its diagonal.
///
/// # Panics
/// If `a` is shorter than `n * n`.
pub fn lu<T: Field>(isa: Isa, n: usize, a: &mut [T], swapped: &mut dyn FnMut(usize, usize)) {
    isa.run(Factor(n, &mut a[..n * n], swapped));
}

struct Factor<'a, T>(usize, &'a mut [T], &'a mut dyn FnMut(usize, usize));

impl<T: Field> Vectorize for Factor<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Factor(n, a, swapped) = self;
        for k in 0..n {
            let (mut pivot, mut largest) = (k, a[k * n + k].magnitude());
            for i in k + 1..n {
                let x = a[i * n + k].magnitude();
                if x > largest {
                    (pivot, largest) = (i, x);
                }
            }
            if pivot != k {
                let (x, y) = two_rows(a, n, k, pivot);
                x.swap_with_slice(y);
                swapped(k, pivot);
            }
            let (above, below) = a.split_at_mut((k + 1) * n);
            let row = &above[k * n..];
            if row[k] == T::ZERO {
                continue;
            }
            for other in below.chunks_exact_mut(n) {
                let factor = other[k] / row[k];
                other[k] = factor;
                add_scaled(&mut other[k + 1..], -factor, &row[k + 1..]);
            }
        }
    }
}
