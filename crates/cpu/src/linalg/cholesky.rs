//! Cholesky decompositions: a positive definite matrix as the product of a lower triangular one and its transpose, of
//! complex numbers the transpose of its conjugates, by blocks of columns (Golub and Van Loan, *Matrix Computations*, 4.2).

use super::rows::add_scaled;
use crate::isa::{Isa, Vectorize};
use crate::number::Field;

/// Number of columns of a block: those behind it are read and written once for all of them.
const BLOCK: usize = 4;

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
        l.copy_from_slice(a);
        for start in (0..n).step_by(BLOCK) {
            let end = n.min(start + BLOCK);
            if !(start..end).all(|column| factor_column(l, n, column, end)) {
                return false;
            }
            subtract_block(l, n, start..end);
        }
        for i in 0..n {
            l[i * n + i + 1..(i + 1) * n].fill(T::ZERO);
        }
        true
    }
}

/// Divides a column by the root of its pivot, and subtracts its products from the other columns of its block, which ends at
/// `end`. The row of the upper triangle that it is transposed to takes the column's conjugates. `false` where the pivot is
/// not positive.
#[inline(always)]
fn factor_column<T: Field>(l: &mut [T], n: usize, column: usize, end: usize) -> bool {
    let pivot = l[column * n + column].real();
    if pivot <= 0.0 {
        return false;
    }
    let pivot = T::from_real(pivot.sqrt());
    l[column * n + column] = pivot;
    let (above, below) = l.split_at_mut((column + 1) * n);
    let transposed = &mut above[column * n..];
    for (i, row) in (column + 1..).zip(below.chunks_exact_mut(n)) {
        let x = row[column] / pivot;
        row[column] = x;
        transposed[i] = x.conj();
        let block = column + 1..end.min(i + 1);
        add_scaled(&mut row[block.clone()], -x, &transposed[block]);
    }
    true
}

/// Subtracts the products of a block's columns from the columns behind it.
#[inline(always)]
fn subtract_block<T: Field>(l: &mut [T], n: usize, block: std::ops::Range<usize>) {
    let (above, below) = l.split_at_mut(block.end * n);
    let transposed = &above[block.start * n..];
    for (i, row) in (block.end..).zip(below.chunks_exact_mut(n)) {
        let (factors, row) = row[block.start..=i].split_at_mut(block.len());
        let column = |k: usize| &transposed[k * n + block.end..=k * n + i];
        if let [a, b, c, d] = *factors {
            let columns = column(0)
                .iter()
                .zip(column(1))
                .zip(column(2).iter().zip(column(3)));
            for (x, ((p, q), (r, s))) in row.iter_mut().zip(columns) {
                *x = *x - ((a * *p + b * *q) + (c * *r + d * *s));
            }
        }
    }
}
