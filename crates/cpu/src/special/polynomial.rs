//! Polynomials by Horner's rule, sums of falling terms, and the end of sums.

/// The relative error at which a sum ends whose result is rounded to `f32`: a sixteenth of its precision.
pub(super) const SINGLE_ERROR: f64 = f32::EPSILON as f64 / 16.0;

/// A polynomial, its highest coefficient first.
pub(super) fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// The sum of terms, of which the first is 1 and each other is `next(the one before, its number)`: as long as they fall
/// and count, which is an asymptotic series at its best.
pub(super) fn falling_sum(next: impl Fn(f64, f64) -> f64) -> f64 {
    let (mut term, mut sum, mut n) = (1.0, 1.0, 1.0);
    loop {
        let following: f64 = next(term, n);
        let counts = following.abs() < f64::abs(term) && following.abs() > f64::EPSILON * sum;
        if !counts {
            return sum;
        }
        (term, sum, n) = (following, sum + following, n + 1.0);
    }
}
