//! Tridiagonal systems of linear equations, by elimination with and without pivoting (Golub and Van Loan, *Matrix
//! Computations*, 4.3).

use thalweg_tensor::DType;

use super::rows::{add_scaled, two_rows};
use crate::number::Field;

/// The way a tridiagonal system is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elimination {
    /// Thomas's algorithm: without pivoting.
    Thomas,
    /// With partial pivoting.
    Pivoting,
    /// With partial pivoting, and a small number in place of pivots that are about zero.
    Perturbed,
}

/// Replaces the right-hand sides `x` (`[n, columns]`) by the solutions for the matrix with the diagonals `[3, n]`: the one
/// above the main diagonal, whose last element is not read, the main one, and the one below, whose first element is not
/// read. Needs `3 * n` elements of scratch. `false` where a pivot is zero.
///
/// # Panics
/// If a slice is shorter than that.
pub fn solve_tridiagonal<T: Field>(
    n: usize,
    columns: usize,
    diagonals: &[T],
    x: &mut [T],
    how: Elimination,
    scratch: &mut [T],
) -> bool {
    let (above, rest) = diagonals[..3 * n].split_at(n);
    let (main, below) = rest.split_at(n);
    // The diagonal of the upper factor, and the two diagonals above it.
    let (pivots, rest) = scratch[..3 * n].split_at_mut(n);
    let (next, second) = rest.split_at_mut(n);
    pivots.copy_from_slice(main);
    next.copy_from_slice(above);
    second.fill(T::ZERO);
    for i in 0..n {
        let last = i + 1 == n;
        let swap =
            how != Elimination::Thomas && !last && below[i + 1].magnitude() > pivots[i].magnitude();
        if !last && swap {
            let factor = pivots[i] / below[i + 1];
            pivots[i] = below[i + 1];
            (pivots[i + 1], next[i]) = (next[i] - factor * main[i + 1], main[i + 1]);
            if i + 2 < n {
                (second[i], next[i + 1]) = (above[i + 1], -(factor * above[i + 1]));
            }
            let (row, other) = two_rows(x, columns, i, i + 1);
            row.swap_with_slice(other);
            add_scaled(other, -factor, row);
            continue;
        }
        if pivots[i] == T::ZERO && how != Elimination::Perturbed {
            return false;
        }
        if !last && below[i + 1] != T::ZERO {
            let factor = below[i + 1] / pivots[i];
            pivots[i + 1] = pivots[i + 1] - factor * next[i];
            let (row, other) = two_rows(x, columns, i, i + 1);
            add_scaled(other, -factor, row);
        }
    }
    let largest_factor = largest(&scratch[..3 * n]);
    let (pivots, rest) = scratch.split_at(n);
    let (next, second) = rest.split_at(n);
    for i in (0..n).rev() {
        let (rest, solved) = x.split_at_mut((i + 1) * columns);
        let row = &mut rest[i * columns..];
        if i + 1 < n {
            add_scaled(row, -next[i], &solved[..columns]);
        }
        if i + 2 < n {
            add_scaled(row, -second[i], &solved[columns..2 * columns]);
        }
        let pivot = match how {
            Elimination::Perturbed => perturbed(pivots[i], largest_factor, largest(row)),
            _ => pivots[i],
        };
        row.iter_mut().for_each(|x| *x = *x / pivot);
    }
    true
}

/// The largest absolute value; NaN if there is one.
fn largest<T: Field>(a: &[T]) -> f64 {
    a.iter().fold(0.0, |largest, x| {
        let x = x.magnitude();
        match x > largest || x.is_nan() {
            true => x,
            false => largest,
        }
    })
}

/// The distance from 1 to the next larger number, and the smallest number that is not subnormal.
fn limits<T: Field>() -> [f64; 2] {
    match T::DTYPE.real() {
        DType::F32 => [f32::EPSILON.into(), f32::MIN_POSITIVE.into()],
        _ => [f64::EPSILON, f64::MIN_POSITIVE],
    }
}

/// The pivot, moved away from zero in steps that grow until numbers of `size` can be divided by it (LAPACK's `lagts`).
/// The first step is the rounding error of `largest_factor`.
fn perturbed<T: Field>(mut pivot: T, largest_factor: f64, size: f64) -> T {
    let [epsilon, least] = limits::<T>();
    let by = (epsilon * largest_factor).max(least);
    let mut by = if pivot.real() < 0.0 { -by } else { by };
    let small = |pivot: T| {
        let pivot = pivot.magnitude();
        pivot < least || size * least > pivot && pivot < 1.0
    };
    while small(pivot) {
        pivot = pivot + T::from_real(by);
        by += by;
    }
    pivot
}

/// The product of a tridiagonal matrix, by its diagonals as those of [`solve_tridiagonal`], and `x` (`[n, columns]`), into
/// `out`.
///
/// # Panics
/// If a slice is shorter than that.
pub fn multiply_tridiagonal<T: Field>(
    n: usize,
    columns: usize,
    [above, main, below]: [&[T]; 3],
    x: &[T],
    out: &mut [T],
) {
    let row = |i: usize| &x[i * columns..][..columns];
    for i in 0..n {
        let out = &mut out[i * columns..][..columns];
        for (out, x) in out.iter_mut().zip(row(i)) {
            *out = main[i] * *x;
        }
        if i > 0 {
            add_scaled(out, below[i], row(i - 1));
        }
        if i + 1 < n {
            add_scaled(out, above[i], row(i + 1));
        }
    }
}
