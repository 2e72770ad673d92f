//! Cholesky and LU decompositions, and triangular systems (Golub and Van Loan, *Matrix Computations*, chapters 3 and 4).

use super::vectors::{C, two_rows};
use crate::linalg::Triangle;

/// The Cholesky factor `l` of `a` (`[n, n]`), of which the lower triangle is read. `false` if `a` is not positive definite.
///
/// # Panics
/// If a slice is shorter than that.
pub fn cholesky(n: usize, a: &[C], l: &mut [C]) -> bool {
    l[..n * n].fill(C::ZERO);
    for i in 0..n {
        for j in 0..=i {
            let (own, other) = (&l[i * n..][..j], &l[j * n..][..j]);
            let known: C = own.iter().zip(other).map(|(x, y)| x * y.conj()).sum();
            let rest = a[i * n + j] - known;
            if i > j {
                l[i * n + j] = rest / l[j * n + j].re;
                continue;
            }
            // A NaN is not positive either.
            if rest.re.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) || !rest.is_finite() {
                return false;
            }
            l[i * n + i] = rest.re.sqrt().into();
        }
    }
    true
}

/// As [`crate::linalg::lu`], of complex numbers.
///
/// # Panics
/// If `a` is shorter than `n * n`.
pub fn lu(n: usize, a: &mut [C], swapped: &mut dyn FnMut(usize, usize)) {
    let a = &mut a[..n * n];
    for k in 0..n {
        let mut pivot = k;
        for i in k + 1..n {
            if a[i * n + k].norm() > a[pivot * n + k].norm() {
                pivot = i;
            }
        }
        if pivot != k {
            let (x, y) = two_rows(a, n, k, pivot);
            x.swap_with_slice(y);
            swapped(k, pivot);
        }
        let (above, below) = a.split_at_mut((k + 1) * n);
        let row = &above[k * n..];
        if row[k] == C::ZERO {
            continue;
        }
        for other in below.chunks_exact_mut(n) {
            let factor = other[k] / row[k];
            other[k] = factor;
            for (x, y) in other[k + 1..].iter_mut().zip(&row[k + 1..]) {
                *x -= factor * y;
            }
        }
    }
}

/// As [`crate::linalg::solve_triangular`], of complex numbers.
///
/// # Panics
/// If a slice is shorter than that says.
pub fn solve_triangular(t: Triangle, a: &[C], x: &mut [C]) {
    let (n, columns) = (t.n, t.columns);
    let element = |i: usize, j: usize| match t.adjoint {
        true => a[j * n + i].conj(),
        false => a[i * n + j],
    };
    let from_above = t.lower != t.adjoint;
    for step in 0..n {
        let i = if from_above { step } else { n - 1 - step };
        let solved = if from_above { 0..i } else { i + 1..n };
        for k in solved {
            let factor = element(i, k);
            for column in 0..columns {
                let known = factor * x[k * columns + column];
                x[i * columns + column] -= known;
            }
        }
        if !t.unit {
            let diagonal = element(i, i);
            let row = &mut x[i * columns..][..columns];
            row.iter_mut().for_each(|x| *x /= diagonal);
        }
    }
}
