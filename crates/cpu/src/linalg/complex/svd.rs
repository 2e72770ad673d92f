//! Singular values by one-sided Jacobi rotations (Hestenes' method; Golub and Van Loan, *Matrix Computations*, 8.6).

use super::vectors::{C, MAX_SWEEPS, dot, rotate, rotation, square, two_rows};
use crate::linalg::Svd;

/// Elements of scratch memory; `None` where they cannot be counted.
pub fn svd_scratch(g: &Svd) -> Option<usize> {
    let (long, short) = (g.rows.max(g.columns), g.values());
    let all = long.checked_mul(if g.full { long } else { short })?;
    all.checked_add(short.checked_mul(short)?)
}

/// As [`crate::linalg::svd`], of complex numbers.
///
/// # Panics
/// If a slice is shorter than `g` says.
pub fn svd(g: &Svd, a: &[C], s: &mut [C], [u, v]: [&mut [C]; 2], scratch: &mut [C]) -> bool {
    let (m, n, short) = (g.rows, g.columns, g.values());
    let long = m.max(n);
    let count = if g.full { long } else { short };
    // Rows are the columns of the matrix, or if it is wide, of its adjoint.
    let (basis, others) = scratch.split_at_mut(count * long);
    let others = &mut others[..short * short];
    for i in 0..short {
        for k in 0..long {
            basis[i * long + k] = match m >= n {
                true => a[k * n + i],
                false => a[i * n + k].conj(),
            };
        }
    }
    others.fill(C::ZERO);
    others
        .iter_mut()
        .step_by(short + 1)
        .for_each(|x| *x = C::from(1.0));
    let columns = &mut basis[..short * long];
    if !square(columns).is_finite() {
        return false;
    }
    let converged = (0..MAX_SWEEPS).any(|_| sweep(short, long, columns, others));
    for i in 0..short {
        let length = |k: usize| square(&columns[k * long..][..long]);
        let longest = (i..short).max_by(|&x, &y| length(x).total_cmp(&length(y)).then(y.cmp(&x)));
        if let Some(longest) = longest.filter(|&k| k != i) {
            for (all, len) in [(&mut *columns, long), (&mut *others, short)] {
                let (x, y) = two_rows(all, len, i, longest);
                x.swap_with_slice(y);
            }
        }
        s[i] = square(&columns[i * long..][..long]).sqrt().into();
    }
    if !g.vectors {
        return converged;
    }
    let least = s.first().map_or(0.0, |s| s.re) * f64::MIN_POSITIVE.sqrt();
    let mut own = 0;
    while own < short && s[own].re > least {
        let size = s[own].re;
        basis[own * long..][..long]
            .iter_mut()
            .for_each(|x| *x /= size);
        own += 1;
    }
    (own..count).for_each(|i| complete(i, long, basis));
    let (of_long, of_short) = if m >= n { (u, v) } else { (v, u) };
    for (to, from, vectors, len) in [
        (of_long, &*basis, count, long),
        (of_short, &*others, short, short),
    ] {
        for k in 0..len {
            (0..vectors).for_each(|i| to[k * vectors + i] = from[i * len + k]);
        }
    }
    converged
}

/// Rotates each pair of columns once; `true` if all were orthogonal.
fn sweep(short: usize, long: usize, columns: &mut [C], others: &mut [C]) -> bool {
    let mut orthogonal = true;
    for i in 0..short {
        for j in i + 1..short {
            let (x, y) = two_rows(columns, long, i, j);
            let (a, b, c) = (square(x), square(y), dot(x, y));
            if c.norm() <= f64::EPSILON * (a * b).sqrt() || c.norm() <= f64::MIN_POSITIVE {
                continue;
            }
            orthogonal = false;
            let turn = rotation(a, b, c);
            rotate(x, y, turn);
            let (x, y) = two_rows(others, short, i, j);
            rotate(x, y, turn);
        }
    }
    orthogonal
}

/// Makes row `i` of `basis` a vector of length 1 that is orthogonal to those before it.
fn complete(i: usize, len: usize, basis: &mut [C]) {
    let (known, rest) = basis.split_at_mut(i * len);
    let row = &mut rest[..len];
    // The unit vector that has most beside those that are there.
    let within = |k: usize| -> f64 { known.iter().skip(k).step_by(len).map(C::norm_sqr).sum() };
    let first = (0..len).min_by(|&x, &y| within(x).total_cmp(&within(y)));
    row.fill(C::ZERO);
    row[first.unwrap_or(0)] = C::from(1.0);
    // Twice, for the digits that the first time loses.
    for _ in 0..2 {
        for other in known.chunks_exact(len) {
            let along = dot(other, row);
            row.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
        }
        let size = square(row).sqrt();
        row.iter_mut().for_each(|x| *x /= size);
    }
}
