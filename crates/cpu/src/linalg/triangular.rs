//! Triangular systems of linear equations, by substitution.

use super::rows::{add_scaled, dot, two_rows};
use crate::isa::{Isa, Vectorize};
use crate::number::{Field, Wide};

/// A triangular matrix and its right-hand sides.
#[derive(Clone, Copy, Debug)]
pub struct Triangle {
    /// Its rows and columns.
    pub n: usize,
    /// Number of right-hand sides.
    pub columns: usize,
    /// `true` if its elements are on and below the diagonal, otherwise on and above it; the others are not read.
    pub lower: bool,
    /// `true` to solve with the transpose, of complex numbers that of the conjugates.
    pub adjoint: bool,
    /// `true` if the diagonal has ones; it is not read then.
    pub unit: bool,
}

/// Replaces the right-hand sides `x` (`[n, columns]`) by the solutions of `a x' = x`, where `a` is `[n, n]`. A zero on the
/// diagonal gives infinities and NaNs.
///
/// # Panics
/// If a slice is shorter than that.
pub fn solve_triangular<T: Field>(isa: Isa, t: Triangle, a: &[T], x: &mut [T]) {
    isa.run(Solve(t, &a[..t.n * t.n], &mut x[..t.n * t.columns]));
}

struct Solve<'a, T>(Triangle, &'a [T], &'a mut [T]);

impl<T: Field> Vectorize for Solve<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Solve(t, a, x) = self;
        let (n, columns) = (t.n, t.columns);
        if columns == 0 {
            return;
        }
        let forward = t.lower != t.adjoint;
        for step in 0..n {
            let i = if forward { step } else { n - 1 - step };
            let (row, solved, first) = match forward {
                true => {
                    let (solved, rest) = x.split_at_mut(i * columns);
                    (&mut rest[..columns], &*solved, 0)
                }
                false => {
                    let (rest, solved) = x.split_at_mut((i + 1) * columns);
                    (&mut rest[i * columns..], &*solved, i + 1)
                }
            };
            match row {
                [x] if !t.adjoint => *x = *x - dot(&a[i * n + first..][..solved.len()], solved),
                _ => {
                    for (j, solved) in (first..).zip(solved.chunks_exact(columns)) {
                        let factor = if t.adjoint {
                            a[j * n + i].conj()
                        } else {
                            a[i * n + j]
                        };
                        add_scaled(row, -factor, solved);
                    }
                }
            }
            if !t.unit {
                let diagonal = match t.adjoint {
                    true => a[i * n + i].conj(),
                    false => a[i * n + i],
                };
                row.iter_mut().for_each(|x| *x = *x / diagonal);
            }
        }
    }
}

/// As [`solve_triangular`], of a matrix with `bands` diagonals, which are the rows of `a` (`[bands, n]`): the main one first
/// and each further below where `lower`, each further down and the main one last otherwise. Element `i` of a diagonal is in
/// row `i` of the matrix.
///
/// # Panics
/// If a slice is shorter than that.
pub fn solve_banded<T: Wide>(t: Triangle, bands: usize, a: &[T], x: &mut [T]) {
    let (n, columns) = (t.n, t.columns);
    // The element `distance` beside the diagonal in row `i`.
    let at = |i: usize, distance: usize| match t.lower {
        true => a[distance * n + i],
        false => a[(bands - 1 - distance) * n + i],
    };
    let forward = t.lower != t.adjoint;
    for step in 0..n {
        let i = if forward { step } else { n - 1 - step };
        for distance in 1..bands.min(step + 1) {
            let j = if forward { i - distance } else { i + distance };
            let factor = at(if t.adjoint { j } else { i }, distance);
            let (low, high) = two_rows(x, columns, i.min(j), i.max(j));
            match forward {
                true => add_scaled(high, -factor, low),
                false => add_scaled(low, -factor, high),
            }
        }
        let pivot = at(i, 0);
        x[i * columns..][..columns]
            .iter_mut()
            .for_each(|x| *x = *x / pivot);
    }
}
