//! Exponentials and logarithms of `f32` as straight lines of arithmetic: a loop over them is vectorised, which a loop
//! over calls of the system's library is not. The same bits on every machine, within three units of the last place.
//!
//! ```
//! use thalweg_cpu::number::single::ln_normal;
//!
//! let x = [1.0f32, 2.0, 10.0];
//! for x in x {
//!     assert!((ln_normal(x) - x.ln()).abs() < 1e-6);
//! }
//! ```

use std::f32::consts;

/// Adding this to a number below 2^22 rounds it to an integer, which then stands in the lowest bits.
pub const ROUND: f32 = 12_582_912.0;

/// The upper bits of a constant: few enough that its product with an integer below 256 is exact.
pub const fn high(x: f64) -> f32 {
    f32::from_bits((x as f32).to_bits() & !0xff)
}

const LN_2_HIGH: f32 = high(std::f64::consts::LN_2);
const LN_2_LOW: f32 = (std::f64::consts::LN_2 - LN_2_HIGH as f64) as f32;

/// NaN stays NaN.
#[inline(always)]
fn within(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `n` and `exp(r) - 1`, where `n` is the integer nearest to `x / ln 2` and `r = x - n ln 2`.
#[inline(always)]
fn split(x: f32) -> (i32, f32) {
    let shifted = x * consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // The series at 0, which r is at most ln 2 / 2 away from: the remainder is below a tenth of the last place.
    let series = 0.5
        + r * (1.0 / 6.0
            + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0)))));
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    (n, r + r * r * series)
}

/// `2^n`, for `n` from -126 to 127.
#[inline(always)]
fn power_of_2(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// e to the power of `x`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Beyond these it is zero, or infinite.
    let (n, less_1) = split(within(x, -104.0, 89.0));
    // In two steps: either alone may be out of range where the result is not.
    let half = n >> 1;
    (1.0 + less_1) * power_of_2(half) * power_of_2(n.wrapping_sub(half))
}

/// e to the power of `x`, less 1.
#[inline(always)]
pub(super) fn exp_m1(x: f32) -> f32 {
    let (n, less_1) = split(within(x, -18.0, 89.0));
    let half = power_of_2(n.wrapping_sub(1));
    let found = 2.0 * (less_1 * half + (half - 0.5));
    // The smallest numbers, and the sign of zero.
    if x.abs() < f32::EPSILON { x } else { found }
}

/// The hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let twice = exp_m1(2.0 * within(x.abs(), 0.0, 10.0));
    (twice / (twice + 2.0)).copysign(x)
}

/// The error function: a quotient of polynomials, with the coefficients of Eigen's `erf`. Beyond 3.93 it is 1 in
/// `f32`.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let size = within(x, -4.0, 4.0);
    let z = size * size;
    let top = -2.726_142_3e-10;
    let top = top * z + 2.770_681_4e-8;
    let top = top * z - 2.101_024e-6;
    let top = top * z - 5.692_506_5e-5;
    let top = top * z - 7.349_906_3e-4;
    let top = top * z - 2.954_6e-3;
    let top = (top * z - 1.609_603_3e-2) * size;
    let bottom = -1.456_607_2e-5;
    let bottom = bottom * z - 2.133_740_6e-4;
    let bottom = bottom * z - 1.682_827e-3;
    let bottom = bottom * z - 7.373_329e-3;
    let bottom = bottom * z - 1.426_473_9e-2;
    let found = top / bottom;
    if x.abs() > 3.93 {
        1f32.copysign(x)
    } else {
        found
    }
}

/// The integer towards zero, as `x as i32` has it: the nearest one where it is out of range, and 0 of a NaN. Loops of `as`
/// are not vectorised.
#[inline(always)]
pub fn to_i32(x: f32) -> i32 {
    // The least and the largest `f32` that are in range.
    let inside = within(x, -2_147_483_648.0, 2_147_483_520.0);
    let inside = if x.is_nan() { 0.0 } else { inside };
    // SAFETY: it is a number in the range of an `i32`.
    let found = unsafe { inside.to_int_unchecked::<i32>() };
    if x >= 2_147_483_648.0 {
        i32::MAX
    } else {
        found
    }
}

/// The natural logarithm of a positive number that is neither infinite nor below the normal ones.
#[inline(always)]
pub fn ln_normal(x: f32) -> f32 {
    // x = (1 + f) 2^e with 1 + f between the square roots of 1/2 and 2.
    let above = x.to_bits().wrapping_sub(consts::FRAC_1_SQRT_2.to_bits());
    let e = (above as i32) >> 23;
    let f = f32::from_bits(x.to_bits().wrapping_sub((e << 23) as u32)) - 1.0;
    // ln(1 + f) = 2 artanh(s), of which 2 s = f - s f keeps the bits of f, which is exact.
    let s = f / (2.0 + f);
    let t = s * s;
    let series = t * (2.0 / 3.0 + t * (2.0 / 5.0 + t * (2.0 / 7.0 + t * (2.0 / 9.0))));
    let e = e as f32;
    e * LN_2_HIGH + (e * LN_2_LOW + (f - s * (f - series)))
}

/// The natural logarithm.
#[inline(always)]
pub(super) fn ln(x: f32) -> f32 {
    const SCALE: f32 = 8_388_608.0;
    let small = x < f32::MIN_POSITIVE;
    let scaled = if small { x * SCALE } else { x };
    let found = ln_normal(scaled) - if small { 23.0 * consts::LN_2 } else { 0.0 };
    // Zero, negative numbers, NaN and infinity, which the bits do not tell apart.
    let found = if x > 0.0 { found } else { f32::NAN };
    let found = if x == 0.0 { f32::NEG_INFINITY } else { found };
    if x == f32::INFINITY { x } else { found }
}

/// The natural logarithm of `1 + x`.
#[inline(always)]
pub(super) fn ln_1p(x: f32) -> f32 {
    // The rounding error of 1 + x is given back in proportion (W. Kahan).
    let sum = 1.0 + x;
    let found = ln(sum) * (x / (sum - 1.0));
    let found = if sum == f32::INFINITY { sum } else { found };
    let found = if sum == 0.0 { f32::NEG_INFINITY } else { found };
    if sum == 1.0 { x } else { found }
}

#[cfg(test)]
mod tests;

/// The angle whose sine is `s`, of a number from 0 to 1/2 with square `z`: coefficients of Cephes' `asinf`.
#[inline(always)]
fn asin_near(s: f32, z: f32) -> f32 {
    let sum = 4.216_32e-2;
    let sum = sum * z + 2.418_131e-2;
    let sum = sum * z + 4.547_002_6e-2;
    let sum = sum * z + 7.495_300_3e-2;
    let sum = sum * z + 1.666_675_2e-1;
    s + s * (z * sum)
}

/// The angle whose sine is the absolute value of `x`; beyond 1/2, half of the angle whose cosine that is.
#[inline(always)]
fn asin_or_half_acos(x: f32) -> (f32, bool) {
    let size = x.abs();
    let is_far = size > 0.5;
    let z = if is_far { 0.5 * (1.0 - size) } else { x * x };
    let s = if is_far { z.sqrt() } else { size };
    (asin_near(s, z), is_far)
}

/// The inverse sine; NaN beyond 1.
#[inline(always)]
pub fn asin(x: f32) -> f32 {
    let (angle, is_far) = asin_or_half_acos(x);
    let far = consts::FRAC_PI_2 - 2.0 * angle;
    let found = if is_far { far } else { angle };
    found.copysign(x)
}

/// The inverse cosine; NaN beyond 1.
#[inline(always)]
pub fn acos(x: f32) -> f32 {
    let (angle, is_far) = asin_or_half_acos(x);
    let far = if x < 0.0 {
        consts::PI - 2.0 * angle
    } else {
        2.0 * angle
    };
    let near = consts::FRAC_PI_2 - angle.copysign(x);
    if is_far { far } else { near }
}
