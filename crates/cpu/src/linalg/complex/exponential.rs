//! The exponential of a square matrix, by scaling and squaring (Moler and Van Loan, Nineteen dubious ways to compute the
//! exponential of a matrix, twenty-five years later, 2003).

use thalweg_tensor::num_complex::Complex;

type C = Complex<f64>;

/// The series is summed for a matrix whose norm is at most this.
const LARGEST_NORM: f64 = 0.25;
/// Terms of the series: the next one is below the rounding of `f64`.
const TERMS: u32 = 14;

/// Elements of scratch memory of [`exponential`]; `None` where they cannot be counted.
pub fn exponential_scratch(n: usize) -> Option<usize> {
    n.checked_mul(n)?.checked_mul(2)
}

/// `to = a * b`, all `[n, n]`.
fn multiply(n: usize, a: &[C], b: &[C], to: &mut [C]) {
    to.fill(C::ZERO);
    for (a, to) in a.chunks_exact(n).zip(to.chunks_exact_mut(n)) {
        for (&a, b) in a.iter().zip(b.chunks_exact(n)) {
            to.iter_mut().zip(b).for_each(|(to, &b)| *to += a * b);
        }
    }
}

/// Replaces `a` (`[n, n]`) by its exponential; `stopped` is asked before each product.
/// `false` where it was stopped.
///
/// # Panics
/// If a slice is shorter than that.
pub fn exponential(
    n: usize,
    a: &mut [C],
    scratch: &mut [C],
    stopped: &mut dyn FnMut() -> bool,
) -> bool {
    if n == 0 {
        return true;
    }
    let row_sum = |row: &[C]| row.iter().map(|x| x.norm()).sum::<f64>();
    let norm = a.chunks_exact(n).map(row_sum).fold(0.0, f64::max);
    let squarings = match norm > LARGEST_NORM && norm.is_finite() {
        true => (norm / LARGEST_NORM).log2().ceil() as i32,
        false => 0,
    };
    let scale = (-f64::from(squarings)).exp2();
    a.iter_mut().for_each(|x| *x *= scale);
    let (sum, rest) = scratch.split_at_mut(n * n);
    let next = &mut rest[..n * n];
    let add_identity = |to: &mut [C]| to.iter_mut().step_by(n + 1).for_each(|x| *x += 1.0);
    // Horner's scheme: 1 + a (1 + a/2 (1 + a/3 ...)).
    sum.fill(C::ZERO);
    add_identity(sum);
    for term in (1..=TERMS).rev() {
        if stopped() {
            return false;
        }
        multiply(n, a, sum, next);
        let part = f64::from(term).recip();
        sum.iter_mut()
            .zip(&*next)
            .for_each(|(to, &x)| *to = x * part);
        add_identity(sum);
    }
    for _ in 0..squarings {
        if stopped() {
            return false;
        }
        multiply(n, sum, sum, next);
        sum.copy_from_slice(next);
    }
    a.copy_from_slice(sum);
    true
}
