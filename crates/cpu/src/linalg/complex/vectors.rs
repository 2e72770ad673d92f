//! Elements, sums over vectors, and rotations of two of them.

use thalweg_tensor::num_complex::Complex;

/// An element of a matrix.
pub(super) type C = Complex<f64>;

/// The most sweeps of rotations over all pairs; it takes about ten.
pub(super) const MAX_SWEEPS: usize = 60;

/// The rotation that makes the off-diagonal element of `[[a, c], [conj(c), b]]` zero: cosine, sine, and the phase by which
/// the second column is turned first.
pub(super) fn rotation(a: f64, b: f64, c: C) -> (f64, f64, C) {
    let size = c.norm();
    let ratio = (b - a) / (2.0 * size);
    let tangent = 1f64.copysign(ratio) / (ratio.abs() + ratio.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    (cosine, tangent * cosine, c.conj() / size)
}

/// Rotates two vectors, of which the second is multiplied by `phase` first.
pub(super) fn rotate(x: &mut [C], y: &mut [C], (cosine, sine, phase): (f64, f64, C)) {
    for (x, y) in x.iter_mut().zip(y) {
        let turned = *y * phase;
        (*x, *y) = (*x * cosine - turned * sine, *x * sine + turned * cosine);
    }
}

/// Rows `i < j` of length `len`.
pub(super) fn two_rows(all: &mut [C], len: usize, i: usize, j: usize) -> (&mut [C], &mut [C]) {
    let (above, below) = all.split_at_mut(j * len);
    (&mut above[i * len..][..len], &mut below[..len])
}

/// The sum of `conj(x) y`.
pub(super) fn dot(x: &[C], y: &[C]) -> C {
    x.iter().zip(y).map(|(x, y)| x.conj() * y).sum()
}

/// The sum of the squares of absolute values.
pub(super) fn square(x: &[C]) -> f64 {
    x.iter().map(C::norm_sqr).sum()
}
