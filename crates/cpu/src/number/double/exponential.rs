//! Exponentials and logarithms.

use std::f64::consts;

use super::polynomial::{ROUND, polynomial};

// The upper bits of the constant, whose product with an integer below 2^20 is exact, and the rest.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// NaN stays NaN.
#[inline(always)]
fn within(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `n` and `exp(r) - 1`, where `n` is the integer nearest to `x / ln 2` and `r = x - n ln 2`.
#[inline(always)]
fn split(x: f64) -> (i64, f64) {
    let shifted = x * consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // The series at 0, which r is at most ln 2 / 2 away from: the remainder is below a tenth of the last place.
    let series = polynomial(
        r,
        [
            1.0 / 2.0,
            1.0 / 6.0,
            1.0 / 24.0,
            1.0 / 120.0,
            1.0 / 720.0,
            1.0 / 5040.0,
            1.0 / 40_320.0,
            1.0 / 362_880.0,
            1.0 / 3_628_800.0,
            1.0 / 39_916_800.0,
            1.0 / 479_001_600.0,
            1.0 / 6_227_020_800.0,
        ],
    );
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i64;
    (n, r + r * r * series)
}

/// `2^n`, for `n` from -1022 to 1023.
#[inline(always)]
fn power_of_2(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) << 52) as u64)
}

/// e to the power of `x`.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    // Beyond these it is zero, or infinite.
    let (n, less_1) = split(within(x, -746.0, 710.0));
    // In two steps: either alone may be out of range where the result is not.
    let half = n >> 1;
    (1.0 + less_1) * power_of_2(half) * power_of_2(n.wrapping_sub(half))
}

/// e to the power of `x`, less 1.
#[inline(always)]
pub fn exp_m1(x: f64) -> f64 {
    let (n, less_1) = split(within(x, -38.0, 710.0));
    let half = power_of_2(n.wrapping_sub(1));
    let found = 2.0 * (less_1 * half + (half - 0.5));
    // The smallest numbers, and the sign of zero.
    if x.abs() < f64::EPSILON { x } else { found }
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f64) -> f64 {
    let twice = exp_m1(2.0 * within(x.abs(), 0.0, 20.0));
    (twice / (twice + 2.0)).copysign(x)
}

/// The natural logarithm of a positive number that is neither infinite nor below the normal ones.
#[inline(always)]
fn ln_normal(x: f64) -> f64 {
    // x = (1 + f) 2^e with 1 + f between the square roots of 1/2 and 2. The exponent becomes a float by its bits, as
    // few processors have vector instructions for 64-bit integers.
    const BIAS: u64 = 1024;
    const INTEGER: u64 = 0x4330_0000_0000_0000;
    let above = x
        .to_bits()
        .wrapping_sub(consts::FRAC_1_SQRT_2.to_bits())
        .wrapping_add(BIAS << 52);
    let biased = above >> 52;
    let e = f64::from_bits(biased | INTEGER) - (f64::from_bits(INTEGER) + BIAS as f64);
    let scale = biased.wrapping_sub(BIAS) << 52;
    let f = f64::from_bits(x.to_bits().wrapping_sub(scale)) - 1.0;
    // ln(1 + f) = 2 artanh(s), of which 2 s = f - s f keeps the bits of f, which is exact.
    let s = f / (2.0 + f);
    let t = s * s;
    // Coefficients of fdlibm's e_log.c.
    let series = t * polynomial(
        t,
        [
            6.666_666_666_666_735e-1,
            3.999_999_999_940_942e-1,
            2.857_142_874_366_239e-1,
            2.222_219_843_214_978_4e-1,
            1.818_357_216_161_805e-1,
            1.531_383_769_920_937_3e-1,
            1.479_819_860_511_658_6e-1,
        ],
    );
    e * LN_2_HIGH + (e * LN_2_LOW + (f - s * (f - series)))
}

/// The natural logarithm.
#[inline(always)]
pub fn ln(x: f64) -> f64 {
    const SCALE: f64 = 18_014_398_509_481_984.0;
    let small = x < f64::MIN_POSITIVE;
    let scaled = if small { x * SCALE } else { x };
    let found = ln_normal(scaled) - if small { 54.0 * consts::LN_2 } else { 0.0 };
    // Zero, negative numbers, NaN and infinity, which the bits do not tell apart.
    let found = if x > 0.0 { found } else { f64::NAN };
    let found = if x == 0.0 { f64::NEG_INFINITY } else { found };
    if x == f64::INFINITY { x } else { found }
}

/// The natural logarithm of `1 + x`.
#[inline(always)]
pub fn ln_1p(x: f64) -> f64 {
    // The rounding error of 1 + x is given back in proportion (W. Kahan).
    let sum = 1.0 + x;
    let found = ln(sum) * (x / (sum - 1.0));
    let found = if sum == f64::INFINITY { sum } else { found };
    let found = if sum == 0.0 { f64::NEG_INFINITY } else { found };
    if sum == 1.0 { x } else { found }
}
