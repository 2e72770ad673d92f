//! Operations on rows of matrices: products, sums, reflections, transpositions.

use crate::number::{Field, Wide};

/// Partial sums of [`dot`]: enough for the widest vectors.
const LANES: usize = 16;

/// The sum of the products of two rows.
#[inline(always)]
pub(super) fn dot<T: Field>(a: &[T], b: &[T]) -> T {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [T::ZERO; LANES];
    for (a, b) in a.iter().zip(b) {
        for (sum, (x, y)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = *sum + *x * *y;
        }
    }
    let rest = a_rest.iter().zip(b_rest);
    let rest = rest.fold(T::ZERO, |sum, (x, y)| sum + *x * *y);
    sums.into_iter().fold(rest, |sum, part| sum + part)
}

/// `y + factor x`, into `y`.
#[inline(always)]
pub(super) fn add_scaled<T: Field>(y: &mut [T], factor: T, x: &[T]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = *y + factor * *x;
    }
}

/// Rows `i` and `j` of a matrix with rows of length `n`, where `i < j`.
#[inline(always)]
pub(super) fn two_rows<T>(a: &mut [T], n: usize, i: usize, j: usize) -> (&mut [T], &mut [T]) {
    let (front, back) = a.split_at_mut(j * n);
    (&mut front[i * n..][..n], &mut back[..n])
}

/// The identity, of rows of length `n`.
#[inline(always)]
pub(super) fn identity<T: Wide>(a: &mut [T], n: usize) {
    a.fill(T::ZERO);
    a.iter_mut().step_by(n + 1).for_each(|x| *x = T::ONE);
}

/// The largest absolute value; NaN if there is one.
#[inline(always)]
pub(super) fn largest<T: Wide>(a: &[T]) -> T {
    a.iter().fold(T::ZERO, |largest, &x| {
        let x = Wide::abs(x);
        match x > largest || x.is_nan() {
            true => x,
            false => largest,
        }
    })
}

/// `false` for infinities and NaNs.
#[inline(always)]
pub(super) fn is_finite<T: Wide>(x: T) -> bool {
    // An infinity or a NaN times zero is NaN.
    x * T::ZERO == T::ZERO
}

/// Householder's reflection `1 - tau v v'` that takes `x` to a multiple of the first unit vector: `x` becomes `v`, which
/// begins with 1. Returns `tau` and the multiple, whose sign is not that of the first element.
#[inline(always)]
pub(super) fn reflection<T: Wide>(x: &mut [T]) -> (T, T) {
    let Some((first, rest)) = x.split_first_mut() else {
        return (T::ZERO, T::ZERO);
    };
    let (head, squares) = (*first, dot(rest, rest));
    *first = T::ONE;
    if squares <= T::MIN_NORMAL {
        rest.fill(T::ZERO);
        return (T::ZERO, head);
    }
    let length = (head * head + squares).sqrt();
    let end = match head >= T::ZERO {
        true => -length,
        false => length,
    };
    rest.iter_mut().for_each(|x| *x = *x / (head - end));
    ((end - head) / end, end)
}

/// Applies the reflection `1 - tau v v'` to a row.
#[inline(always)]
pub(super) fn reflect<T: Wide>(row: &mut [T], tau: T, v: &[T]) {
    let factor = -(tau * dot(row, v));
    add_scaled(row, factor, v);
}

/// The transposed matrix: `a` has rows of length `n`, `to` has `n` rows.
#[inline(always)]
pub(super) fn transpose<T: Copy>(a: &[T], n: usize, to: &mut [T]) {
    let rows = a.len().checked_div(n).unwrap_or(0);
    for (i, row) in a.chunks_exact(n.max(1)).enumerate() {
        for (j, &x) in row.iter().enumerate() {
            to[j * rows + i] = x;
        }
    }
}
