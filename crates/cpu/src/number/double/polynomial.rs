//! Polynomials, and the rounding of floats to integers.

/// Adding this to a number below 2^51 rounds it to an integer, which then stands in the lowest bits.
pub const ROUND: f64 = 6_755_399_441_055_744.0;

/// The polynomial with these coefficients, the constant one first.
#[inline(always)]
pub(super) fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = 0.0;
    let mut i = N;
    while i > 0 {
        i -= 1;
        sum = sum * x + coefficients[i];
    }
    sum
}
