//! Polynomials by Horner's rule.

/// A polynomial, its highest coefficient first.
pub(super) fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}
