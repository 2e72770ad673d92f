//! Eigenvalues and eigenvectors of symmetric matrices: reflections to a tridiagonal matrix, then QR steps with Wilkinson's
//! shift (Golub and Van Loan, *Matrix Computations*, 8.3).

use super::rotation::Rotation;
use super::rows::{
    add_scaled, dot, identity, is_finite, largest, reflect, reflection, transpose, two_rows,
};
use crate::isa::{Isa, Vectorize};
use crate::number::Wide;

/// The most QR steps for each eigenvalue; it takes two or three.
const MAX_STEPS: usize = 30;

/// Elements of scratch memory of [`symmetric_eigen`]; `None` where they cannot be counted.
pub fn symmetric_eigen_scratch(n: usize, vectors: bool) -> Option<usize> {
    let matrix = n.checked_mul(n)?;
    let matrices = matrix.checked_mul(1 + usize::from(vectors))?;
    matrices.checked_add(n.checked_mul(3)?)
}

/// The eigenvalues `e` (`[n]`, from small to large) of `a` (`[n, n]`), of which only the lower triangle is read, and the
/// eigenvectors, which are the columns of `v` (`[n, n]`). `false` where the QR steps do not converge: NaNs, infinities.
///
/// # Panics
/// If a slice is shorter than that.
pub fn symmetric_eigen<T: Wide>(
    isa: Isa,
    n: usize,
    a: &[T],
    e: &mut [T],
    v: Option<&mut [T]>,
    scratch: &mut [T],
) -> bool {
    let (work, scratch) = scratch.split_at_mut(n * n);
    let (betas, scratch) = scratch.split_at_mut(n);
    let (taus, scratch) = scratch.split_at_mut(n);
    let (products, scratch) = scratch.split_at_mut(n);
    for i in 0..n {
        for j in 0..=i {
            (work[i * n + j], work[j * n + i]) = (a[i * n + j], a[i * n + j]);
        }
    }
    let vectors = v.is_some();
    let rows = &mut scratch[..if vectors { n * n } else { 0 }];
    let scale = largest(work);
    if !is_finite(scale) {
        return false;
    }
    let scale = if scale == T::ZERO { T::ONE } else { scale };
    work.iter_mut().for_each(|x| *x = *x / scale);
    let e = &mut e[..n];
    isa.run(Tridiagonalize {
        n,
        a: work,
        e: &mut *e,
        off: &mut *betas,
        taus,
        products,
        rows: &mut *rows,
    });
    if !isa.run(Diagonalize {
        n,
        e: &mut *e,
        off: betas,
        rows: &mut *rows,
    }) {
        return false;
    }
    e.iter_mut().for_each(|x| *x = *x * scale);
    sort(n, e, rows);
    if let Some(v) = v {
        transpose(rows, n, &mut v[..n * n]);
    }
    true
}

/// Reflects `a` to a tridiagonal matrix: its diagonal `e`, the elements `off` beside it, and the orthonormal columns that
/// take it back, as `rows`, unless those are empty.
struct Tridiagonalize<'a, T> {
    n: usize,
    a: &'a mut [T],
    e: &'a mut [T],
    off: &'a mut [T],
    taus: &'a mut [T],
    products: &'a mut [T],
    rows: &'a mut [T],
}

impl<T: Wide> Vectorize for Tridiagonalize<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Tridiagonalize {
            n,
            a,
            e,
            off,
            taus,
            products,
            rows,
        } = self;
        let half = T::from_f64(0.5);
        for k in 0..n {
            let (above, below) = a.split_at_mut((k + 1) * n);
            e[k] = above[k * n + k];
            // Symmetric: the row right of the diagonal is the column below it.
            let v = &mut above[k * n + k + 1..];
            (taus[k], off[k]) = reflection(v);
            let (tau, p) = (taus[k], &mut products[..v.len()]);
            for (row, p) in below.chunks_exact(n).zip(p.iter_mut()) {
                *p = tau * dot(&row[k + 1..], v);
            }
            let shift = half * tau * dot(p, v);
            add_scaled(p, -shift, v);
            for (i, row) in below.chunks_exact_mut(n).enumerate() {
                add_scaled(&mut row[k + 1..], -v[i], p);
                add_scaled(&mut row[k + 1..], -p[i], v);
            }
        }
        if rows.is_empty() {
            return;
        }
        identity(rows, n);
        for k in (0..n).rev() {
            let v = &a[k * n + k + 1..(k + 1) * n];
            for row in rows.chunks_exact_mut(n).skip(k + 1) {
                reflect(&mut row[k + 1..], taus[k], v);
            }
        }
    }
}

/// QR steps on a tridiagonal matrix until it is diagonal. Rotates `rows` along; they may be empty.
struct Diagonalize<'a, T> {
    n: usize,
    e: &'a mut [T],
    off: &'a mut [T],
    rows: &'a mut [T],
}

impl<T: Wide> Vectorize for Diagonalize<'_, T> {
    type Out = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let Diagonalize { n, e, off, rows } = self;
        let (mut end, mut steps) = (n.saturating_sub(1), 0);
        while end > 0 {
            for i in 0..end {
                let part = off[i] / T::EPSILON;
                let beside = Wide::abs(e[i]) + Wide::abs(e[i + 1]);
                if part * part <= beside || Wide::abs(off[i]) < T::MIN_NORMAL {
                    off[i] = T::ZERO;
                }
            }
            while end > 0 && off[end - 1] == T::ZERO {
                end -= 1;
            }
            if end == 0 {
                break;
            }
            steps += 1;
            if steps > MAX_STEPS * n {
                return false;
            }
            let start = (0..end).rev().take_while(|&i| off[i] != T::ZERO).last();
            step(e, off, start.unwrap_or(end), end, rows, n);
        }
        true
    }
}

/// One QR step on the part from `start` to `end`, with nothing but nonzero elements beside its diagonal.
#[inline(always)]
fn step<T: Wide>(e: &mut [T], off: &mut [T], start: usize, end: usize, rows: &mut [T], n: usize) {
    let mut x = e[start] - wilkinson_shift(e[end - 1], off[end - 1], e[end]);
    let mut z = off[start];
    for k in start..end {
        if z == T::ZERO {
            return;
        }
        let r = Rotation::zeroing(x, z);
        let Rotation { c, s } = r;
        // The rotation from both sides.
        let below = (s * e[k] + c * off[k], s * off[k] + c * e[k + 1]);
        e[k] = c * (c * e[k] - s * off[k]) - s * (c * off[k] - s * e[k + 1]);
        e[k + 1] = s * below.0 + c * below.1;
        off[k] = c * below.0 - s * below.1;
        if k > start {
            off[k - 1] = c * off[k - 1] - s * z;
        }
        x = off[k];
        if k + 1 < end {
            z = -(s * off[k + 1]);
            off[k + 1] = c * off[k + 1];
        }
        if !rows.is_empty() {
            r.inverse().rows(two_rows(rows, n, k, k + 1));
        }
    }
}

/// The eigenvalue of `[[a, b], [b, c]]` that is nearer to `c`.
#[inline(always)]
fn wilkinson_shift<T: Wide>(a: T, b: T, c: T) -> T {
    let half = (a - c) * T::from_f64(0.5);
    if half == T::ZERO {
        return c - Wide::abs(b);
    }
    if b == T::ZERO {
        return c;
    }
    // No square that may overflow or vanish: the matrix has elements of at most about 1.
    let length = (half * half + b * b).sqrt();
    let signed = if half > T::ZERO {
        half + length
    } else {
        half - length
    };
    match b * b == T::ZERO {
        true => c - b / (signed / b),
        false => c - b * b / signed,
    }
}

/// Sorts eigenvalues from small to large, and the rows with them, which may be empty.
fn sort<T: Wide>(n: usize, e: &mut [T], rows: &mut [T]) {
    for i in 0..n {
        let smallest = (i..n).fold(i, |best, j| if e[j] < e[best] { j } else { best });
        if smallest != i {
            e.swap(i, smallest);
            if !rows.is_empty() {
                let (x, y) = two_rows(rows, n, i, smallest);
                x.swap_with_slice(y);
            }
        }
    }
}
