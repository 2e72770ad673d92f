//! Singular value decompositions by two-sided Jacobi rotations (Kogbetliantz's method; Golub and Van Loan, *Matrix
//! Computations*, 8.6), after a QR decomposition with pivoting where the matrix is not square.

use super::rotation::Rotation;
use super::rows::{dot, identity, is_finite, largest, reflect, reflection, transpose, two_rows};
use crate::isa::{Isa, Vectorize};
use crate::number::Wide;

/// The most sweeps over all pairs; it takes less than ten.
const MAX_SWEEPS: usize = 60;

/// The shape of a decomposition.
#[derive(Clone, Copy, Debug)]
pub struct Svd {
    /// Its rows.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
    /// `true` if both matrices of vectors are square: otherwise they have no more columns than there are singular values.
    pub full: bool,
    /// `true` to make the vectors.
    pub vectors: bool,
}

impl Svd {
    /// Number of singular values.
    pub fn values(&self) -> usize {
        self.rows.min(self.columns)
    }

    /// Number of left vectors, and of right ones.
    pub fn vectors(&self) -> [usize; 2] {
        match self.full {
            true => [self.rows, self.columns],
            false => [self.values(); 2],
        }
    }

    /// Elements of scratch memory; `None` where they cannot be counted.
    pub fn scratch(&self) -> Option<usize> {
        let r = self.values();
        let [left, right] = if self.vectors { self.vectors() } else { [0; 2] };
        let parts = [
            [self.rows, self.columns],
            [r, r],
            [r, 1],
            [left, self.rows],
            [right, self.columns],
        ];
        let mut sizes = parts.into_iter().map(|[m, n]| m.checked_mul(n));
        sizes.try_fold(0usize, |sum, n| sum.checked_add(n?))
    }
}

/// The singular values `s` of `a` (`[rows, columns]`), from large to small, and where `g.vectors` says so the left and right
/// singular vectors: the columns of `u` and `v`. `false` where `a` has NaNs or infinities, or the sweeps do not converge.
///
/// # Panics
/// If a slice is shorter than `g` says.
pub fn svd<T: Wide>(
    isa: Isa,
    g: &Svd,
    a: &[T],
    s: &mut [T],
    [u, v]: [&mut [T]; 2],
    scratch: &mut [T],
) -> bool {
    let (m, n, r) = (g.rows, g.columns, g.values());
    let [left, right] = if g.vectors { g.vectors() } else { [0; 2] };
    let (tall, scratch) = scratch.split_at_mut(m * n);
    let (work, scratch) = scratch.split_at_mut(r * r);
    let (taus, scratch) = scratch.split_at_mut(r);
    let (us, scratch) = scratch.split_at_mut(left * m);
    let vs = &mut scratch[..right * n];
    let (a, s) = (&a[..m * n], &mut s[..r]);
    let scale = largest(a);
    if !is_finite(scale) {
        return false;
    }
    let scale = if scale == T::ZERO { T::ONE } else { scale };
    identity(us, m.max(1));
    identity(vs, n.max(1));
    if m == n {
        work.copy_from_slice(a);
        work.iter_mut().for_each(|x| *x = *x / scale);
    } else {
        // The columns of the taller one of the matrix and its transpose are the rows of `tall`.
        match m > n {
            true => transpose(a, n, tall),
            false => tall.copy_from_slice(a),
        }
        tall.iter_mut().for_each(|x| *x = *x / scale);
        let (q, columns) = if m > n {
            (&mut *us, &mut *vs)
        } else {
            (&mut *vs, &mut *us)
        };
        isa.run(Triangularize {
            r,
            tall,
            work,
            taus,
            q,
            columns,
        });
        if m > n {
            (0..r).for_each(|i| (0..i).for_each(|j| work.swap(i * r + j, j * r + i)));
        }
    }
    let converged = isa.run(Diagonalize {
        r,
        m,
        n,
        work,
        us: &mut *us,
        vs: &mut *vs,
    });
    for (i, s) in s.iter_mut().enumerate() {
        let value = work[i * r + i];
        *s = Wide::abs(value) * scale;
        if value < T::ZERO && g.vectors {
            us[i * m..][..m].iter_mut().for_each(|x| *x = -*x);
        }
    }
    sort(s, &mut [(&mut *us, m), (&mut *vs, n)]);
    if g.vectors {
        transpose(us, m, &mut u[..left * m]);
        transpose(vs, n, &mut v[..right * n]);
    }
    converged
}

/// QR decomposition with pivoting of the matrix whose columns are the rows of `tall`: `work` becomes the transpose of the
/// triangular factor, the rows of `q` the orthonormal columns, and those of `columns` change places as columns do.
struct Triangularize<'a, T> {
    r: usize,
    tall: &'a mut [T],
    work: &'a mut [T],
    taus: &'a mut [T],
    q: &'a mut [T],
    columns: &'a mut [T],
}

impl<T: Wide> Vectorize for Triangularize<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Triangularize {
            r,
            tall,
            work,
            taus,
            q,
            columns,
        } = self;
        let len = tall.len().checked_div(r).unwrap_or(0);
        work.fill(T::ZERO);
        for k in 0..r {
            let square = |tall: &[T], i: usize| {
                let rest = &tall[i * len + k..(i + 1) * len];
                dot(rest, rest)
            };
            let (mut pivot, mut longest) = (k, square(tall, k));
            for i in k + 1..r {
                let length = square(tall, i);
                if length > longest {
                    (pivot, longest) = (i, length);
                }
            }
            if pivot != k {
                for (rows, n) in [(&mut *tall, len), (&mut *work, r), (&mut *columns, r)] {
                    if !rows.is_empty() {
                        let (x, y) = two_rows(rows, n, k, pivot);
                        x.swap_with_slice(y);
                    }
                }
            }
            let (above, below) = tall.split_at_mut((k + 1) * len);
            let v = &mut above[k * len + k..];
            (taus[k], work[k * r + k]) = reflection(v);
            for (i, row) in (k + 1..).zip(below.chunks_exact_mut(len)) {
                reflect(&mut row[k..], taus[k], v);
                work[i * r + k] = row[k];
            }
        }
        for k in (0..r).rev() {
            let v = &tall[k * len + k..(k + 1) * len];
            for row in q.chunks_exact_mut(len).skip(k) {
                reflect(&mut row[k..], taus[k], v);
            }
        }
    }
}

/// Sweeps of rotations until `work` is diagonal; they turn the rows of `us` (of length `m`) and `vs` (`n`) along, unless
/// those are empty.
struct Diagonalize<'a, T> {
    r: usize,
    m: usize,
    n: usize,
    work: &'a mut [T],
    us: &'a mut [T],
    vs: &'a mut [T],
}

impl<T: Wide> Vectorize for Diagonalize<'_, T> {
    type Out = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let Diagonalize {
            r,
            m,
            n,
            work,
            us,
            vs,
        } = self;
        let precision = T::EPSILON + T::EPSILON;
        let diagonal = |w: &[T], i: usize| Wide::abs(w[i * r + i]);
        let max = |a: T, b: T| if b > a { b } else { a };
        let mut largest = (0..r).fold(T::ZERO, |best, i| max(best, diagonal(work, i)));
        for _ in 0..MAX_SWEEPS {
            let mut finished = true;
            for p in 1..r {
                for q in 0..p {
                    let threshold = max(T::MIN_NORMAL, precision * largest);
                    let beside = max(Wide::abs(work[p * r + q]), Wide::abs(work[q * r + p]));
                    if beside <= threshold {
                        continue;
                    }
                    finished = false;
                    let (left, right) = rotations(work, r, p, q);
                    // Rows come in order; a rotation of (p, q) is the inverse one of (q, p).
                    left.inverse().rows(two_rows(work, r, q, p));
                    for row in work.chunks_exact_mut(r) {
                        (row[p], row[q]) = right.inverse().of(row[p], row[q]);
                    }
                    if !us.is_empty() {
                        left.inverse().rows(two_rows(us, m, q, p));
                        right.rows(two_rows(vs, n, q, p));
                    }
                    largest = max(largest, max(diagonal(work, p), diagonal(work, q)));
                }
            }
            if finished {
                return true;
            }
        }
        false
    }
}

/// The rotations of rows and of columns that make the part of `work` at `p` and `q` diagonal.
#[inline(always)]
fn rotations<T: Wide>(work: &[T], r: usize, p: usize, q: usize) -> (Rotation<T>, Rotation<T>) {
    let [pp, pq, qp, qq] = [(p, p), (p, q), (q, p), (q, q)].map(|(i, j)| work[i * r + j]);
    let (sum, difference) = (pp + qq, qp - pq);
    // The first one makes the part symmetric.
    let first = match Wide::abs(difference) < T::MIN_NORMAL {
        true => Rotation {
            c: T::ONE,
            s: T::ZERO,
        },
        false => {
            let u = sum / difference;
            let length = (T::ONE + u * u).sqrt();
            Rotation {
                c: u / length,
                s: T::ONE / length,
            }
        }
    };
    let (x, _) = first.of(pp, qp);
    let (y, z) = first.of(pq, qq);
    let right = Rotation::diagonalizing(x, y, z);
    (first.after_inverse(right), right)
}

/// Sorts singular values from large to small, and rows of these matrices with them, unless they are empty.
fn sort<T: Wide>(s: &mut [T], matrices: &mut [(&mut [T], usize)]) {
    for i in 0..s.len() {
        let best = (i..s.len()).fold(i, |best, j| if s[j] > s[best] { j } else { best });
        if best == i {
            continue;
        }
        s.swap(i, best);
        for (rows, n) in matrices.iter_mut().filter(|(rows, _)| !rows.is_empty()) {
            let (x, y) = two_rows(rows, *n, i, best);
            x.swap_with_slice(y);
        }
    }
}
