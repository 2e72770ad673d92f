//! QR decompositions by Householder reflections (Golub and Van Loan, *Matrix Computations*, 5.2), with LAPACK's signs: the
//! diagonal of R is real.

use super::vectors::C;
use crate::qr::Qr;

/// Elements of scratch memory; `None` where they cannot be counted.
pub fn qr_scratch(g: &Qr) -> Option<usize> {
    let elements = g.rows.checked_mul(g.columns)?;
    elements.checked_add(g.rows.min(g.columns))
}

/// As [`crate::qr::qr`], of complex numbers.
///
/// # Panics
/// If a slice is shorter than `g` says.
pub fn qr(g: &Qr, a: &[C], q: &mut [C], r: &mut [C], scratch: &mut [C]) {
    let (m, n, inner) = (g.rows, g.columns, g.inner());
    let (work, factors) = scratch.split_at_mut(m * n);
    work.copy_from_slice(&a[..m * n]);
    let steps = m.min(n);
    for (k, factor) in factors[..steps].iter_mut().enumerate() {
        let column: f64 = (k..m).map(|i| work[i * n + k].norm_sqr()).sum();
        let first = work[k * n + k];
        let length = column.sqrt();
        let others = column - first.norm_sqr();
        if others <= f64::MIN_POSITIVE && first.im == 0.0 {
            *factor = C::ZERO;
            r[k * n + k] = first;
            continue;
        }
        // The sign at which the first element of the vector does not cancel.
        let target = if first.re >= 0.0 { -length } else { length };
        *factor = (C::from(column) - first * target).inv();
        work[k * n + k] = first - target;
        for j in k + 1..n {
            let along: C = (k..m)
                .map(|i| work[i * n + k].conj() * work[i * n + j])
                .sum();
            let along = along * *factor;
            for i in k..m {
                let part = work[i * n + k] * along;
                work[i * n + j] -= part;
            }
        }
        r[k * n + k] = target.into();
    }
    for i in 0..inner {
        for j in (0..n).filter(|&j| j != i) {
            r[i * n + j] = if i < j { work[i * n + j] } else { C::ZERO };
        }
    }
    q[..m * inner].fill(C::ZERO);
    (0..inner).for_each(|i| q[i * inner + i] = C::from(1.0));
    for k in (0..steps).rev() {
        let factor = factors[k].conj();
        for j in k..inner {
            let along: C = (k..m)
                .map(|i| work[i * n + k].conj() * q[i * inner + j])
                .sum();
            let along = along * factor;
            for i in k..m {
                q[i * inner + j] -= work[i * n + k] * along;
            }
        }
    }
}
