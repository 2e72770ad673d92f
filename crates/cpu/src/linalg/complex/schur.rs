//! Schur decompositions by shifted QR iterations (Golub and Van Loan, *Matrix Computations*, 7.5), and what follows from
//! them: eigenvalues, square roots and logarithms of general matrices.

use super::vectors::{C, square};

/// The most iterations for an eigenvalue; it takes two or three.
const MAX_ITERATIONS: usize = 60;

/// Replaces `a` (`[n, n]`) by the upper triangular `t`, and `u` by the unitary matrix, for which `a` is `u t u'`. `false`
/// where `a` has NaNs or infinities, or the iterations do not converge.
///
/// # Panics
/// If a slice is shorter than that.
pub fn schur(n: usize, a: &mut [C], u: &mut [C]) -> bool {
    let (a, u) = (&mut a[..n * n], &mut u[..n * n]);
    u.fill(C::ZERO);
    u.iter_mut().step_by(n + 1).for_each(|x| *x = C::from(1.0));
    if !square(a).is_finite() {
        return false;
    }
    to_hessenberg(n, a, u);
    let (mut last, mut iterations) = (n.saturating_sub(1), 0);
    while last > 0 {
        let first = active_from(n, a, last);
        if first == last {
            (last, iterations) = (last - 1, 0);
            continue;
        }
        iterations += 1;
        if iterations > MAX_ITERATIONS {
            return false;
        }
        let shift = match iterations % 10 {
            // Another one, for matrices at which the usual one stands still.
            0 => a[last * n + last] + a[last * n + last - 1].norm(),
            _ => shift(n, a, last),
        };
        step(n, [first, last], shift, a, u);
    }
    for i in 0..n {
        a[i * n..][..i].fill(C::ZERO);
    }
    true
}

/// A rotation that makes the second of two numbers zero: both divided by their length.
fn rotation(x: C, y: C) -> Option<[C; 2]> {
    let size = x.norm().hypot(y.norm());
    (size > 0.0).then(|| [x / size, y / size])
}

/// Rotates rows `i` and `i + 1`, from column `from` on.
fn rotate_rows(n: usize, a: &mut [C], i: usize, from: usize, [c, s]: [C; 2]) {
    for column in from..n {
        let (x, y) = (a[i * n + column], a[(i + 1) * n + column]);
        a[i * n + column] = c.conj() * x + s.conj() * y;
        a[(i + 1) * n + column] = c * y - s * x;
    }
}

/// Rotates columns `i` and `i + 1` of the first rows, by the inverse of the rotation of rows.
fn rotate_columns(n: usize, a: &mut [C], i: usize, rows: usize, [c, s]: [C; 2]) {
    for row in a.chunks_exact_mut(n).take(rows) {
        let (x, y) = (row[i], row[i + 1]);
        row[i] = x * c + y * s;
        row[i + 1] = y * c.conj() - x * s.conj();
    }
}

/// Makes all below the first subdiagonal zero.
fn to_hessenberg(n: usize, a: &mut [C], u: &mut [C]) {
    for column in 0..n.saturating_sub(2) {
        for i in (column + 1..n - 1).rev() {
            let (x, y) = (a[i * n + column], a[(i + 1) * n + column]);
            if y == C::ZERO {
                continue;
            }
            if let Some(turn) = rotation(x, y) {
                rotate_rows(n, a, i, column, turn);
                rotate_columns(n, a, i, n, turn);
                rotate_columns(n, u, i, n, turn);
                a[(i + 1) * n + column] = C::ZERO;
            }
        }
    }
}

/// The first row of the block that ends in `last` and has no negligible element below its diagonal, which become zero.
fn active_from(n: usize, a: &mut [C], last: usize) -> usize {
    let mut first = last;
    while first > 0 {
        let around = a[(first - 1) * n + first - 1].norm() + a[first * n + first].norm();
        let below = &mut a[first * n + first - 1];
        if below.norm() <= f64::EPSILON * around || below.norm() < f64::MIN_POSITIVE {
            *below = C::ZERO;
            break;
        }
        first -= 1;
    }
    first
}

/// The eigenvalue of the last two rows and columns of a block that is closer to its last element.
fn shift(n: usize, a: &[C], last: usize) -> C {
    let before = last - 1;
    let [p, q, r, s] = [
        (before, before),
        (before, last),
        (last, before),
        (last, last),
    ]
    .map(|(i, j)| a[i * n + j]);
    let (half, product) = ((p - s) * 0.5, q * r);
    let root = (half * half + product).sqrt();
    let farther = match (half.conj() * root).re < 0.0 {
        true => half - root,
        false => half + root,
    };
    match farther == C::ZERO {
        true => s,
        false => s - product / farther,
    }
}

/// A QR step with a shift on the block of rows `first..=last`.
fn step(n: usize, [first, last]: [usize; 2], shift: C, a: &mut [C], u: &mut [C]) {
    (first..=last).for_each(|i| a[i * n + i] -= shift);
    let mut before: Option<(usize, [C; 2])> = None;
    // A rotation of columns follows that of the rows below, which still read them.
    for i in first..last {
        let turn = rotation(a[i * n + i], a[(i + 1) * n + i]);
        let turn = turn.unwrap_or([C::from(1.0), C::ZERO]);
        rotate_rows(n, a, i, i, turn);
        a[(i + 1) * n + i] = C::ZERO;
        if let Some((i, turn)) = before.replace((i, turn)) {
            rotate_columns(n, a, i, i + 2, turn);
            rotate_columns(n, u, i, n, turn);
        }
    }
    if let Some((i, turn)) = before {
        rotate_columns(n, a, i, i + 2, turn);
        rotate_columns(n, u, i, n, turn);
    }
    (first..=last).for_each(|i| a[i * n + i] += shift);
}

/// The eigenvectors of `t`, which is upper triangular, times `u`: columns of length 1. `t` and `vectors` are `[n, n]`, `one`
/// has `n` elements.
///
/// # Panics
/// If a slice is shorter than that.
pub fn eigenvectors(n: usize, t: &[C], u: &[C], vectors: &mut [C], one: &mut [C]) {
    let least = f64::EPSILON * square(&t[..n * n]).sqrt().max(f64::MIN_POSITIVE);
    for k in 0..n {
        let value = t[k * n + k];
        one[k] = C::from(1.0);
        for i in (0..k).rev() {
            let sum: C = (i + 1..=k).map(|j| t[i * n + j] * one[j]).sum();
            let difference = t[i * n + i] - value;
            let difference = match difference.norm() < least {
                true => C::from(least),
                false => difference,
            };
            one[i] = -sum / difference;
        }
        let size = square(&one[..=k]).sqrt();
        let column = |row: usize| -> C { (0..=k).map(|j| u[row * n + j] * one[j]).sum() };
        (0..n).for_each(|row| vectors[row * n + k] = column(row) / size);
    }
}

/// The square root of the upper triangular `t`, in its place (Björck and Hammarling's recurrence).
fn triangular_square_root(n: usize, t: &mut [C]) {
    for j in 0..n {
        t[j * n + j] = t[j * n + j].sqrt();
        for i in (0..j).rev() {
            let known: C = (i + 1..j).map(|k| t[i * n + k] * t[k * n + j]).sum();
            let rest = t[i * n + j] - known;
            t[i * n + j] = match rest == C::ZERO {
                true => rest,
                false => rest / (t[i * n + i] + t[j * n + j]),
            };
        }
    }
}

/// The product of two upper triangular matrices.
fn triangular_product(n: usize, x: &[C], y: &[C], out: &mut [C]) {
    for i in 0..n {
        for j in 0..n {
            out[i * n + j] = (i..=j).map(|k| x[i * n + k] * y[k * n + j]).sum();
        }
    }
}

/// The logarithm of the upper triangular `t`, in its place, by square roots down to a matrix near the identity and the series
/// of the inverse hyperbolic tangent. `scratch` has `3 * n * n` elements. `false` where it does not come near.
fn triangular_logarithm(n: usize, t: &mut [C], scratch: &mut [C]) -> bool {
    let distance = |t: &[C]| -> f64 {
        let one = |i: usize| f64::from(u8::from(i.is_multiple_of(n + 1)));
        (0..n * n)
            .map(|i| (t[i] - one(i)).norm_sqr())
            .sum::<f64>()
            .sqrt()
    };
    let mut scale = 2.0;
    while distance(t) > 0.25 {
        if scale > 1e30 {
            return false;
        }
        triangular_square_root(n, t);
        scale *= 2.0;
    }
    // y = (t - 1) / (t + 1), of which log t = 2 (y + y^3 / 3 + ...).
    let (y, rest) = scratch.split_at_mut(n * n);
    let (power, next) = rest.split_at_mut(n * n);
    for j in 0..n {
        for i in (0..=j).rev() {
            let one = if i == j { 1.0 } else { 0.0 };
            let known: C = (i + 1..=j).map(|k| t[i * n + k] * y[k * n + j]).sum();
            y[i * n + j] = (t[i * n + j] - one - known) / (t[i * n + i] + 1.0);
        }
        (j + 1..n).for_each(|i| y[i * n + j] = C::ZERO);
    }
    power.copy_from_slice(y);
    t.fill(C::ZERO);
    for term in (1..22).step_by(2) {
        let factor = scale / f64::from(term);
        t.iter_mut()
            .zip(&*power)
            .for_each(|(t, x)| *t += x * factor);
        triangular_product(n, power, y, &mut next[..n * n]);
        triangular_product(n, &next[..n * n], y, power);
    }
    true
}

/// A function of a matrix that is computed of its triangular factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixFunction {
    /// The square root whose eigenvalues have no negative real parts.
    SquareRoot,
    /// The logarithm whose eigenvalues have imaginary parts from -pi to pi.
    Logarithm,
}

impl MatrixFunction {
    /// Elements of scratch memory; `None` where they cannot be counted.
    pub fn scratch(self, n: usize) -> Option<usize> {
        n.checked_mul(n)?.checked_mul(5)
    }

    /// Replaces `a` (`[n, n]`) by the function of it. `false` where the decomposition does not converge, or the logarithm is
    /// not finite.
    ///
    /// # Panics
    /// If a slice is shorter than that.
    pub fn apply(self, n: usize, a: &mut [C], scratch: &mut [C]) -> bool {
        let (t, rest) = scratch.split_at_mut(n * n);
        let (u, rest) = rest.split_at_mut(n * n);
        t.copy_from_slice(&a[..n * n]);
        let done = schur(n, t, u)
            && match self {
                MatrixFunction::SquareRoot => {
                    triangular_square_root(n, t);
                    true
                }
                MatrixFunction::Logarithm => triangular_logarithm(n, t, rest),
            };
        for i in 0..n {
            for j in 0..n {
                rest[i * n + j] = (0..=j).map(|l| u[i * n + l] * t[l * n + j]).sum();
            }
        }
        for i in 0..n {
            for j in 0..n {
                a[i * n + j] = (0..n).map(|k| rest[i * n + k] * u[j * n + k].conj()).sum();
            }
        }
        done
    }
}
