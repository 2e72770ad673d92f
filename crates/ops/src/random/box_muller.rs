//! Conversion of random words to floating-point numbers: uniform, and normal by the Box-Muller transform.
//!
//! The `f32` functions have no branches, so that loops over them are vectorised, and
//! use no fused operations, so that they give the same bits on every instruction set.

use std::f32::consts;

use thalweg_cpu::number::single::{ROUND, high, ln_normal};

/// Lower bound of the uniform number whose logarithm is taken; TensorFlow's. It bounds the normal
/// numbers by `sqrt(-2 ln 1e-7)`, about 5.68.
const MIN_UNIFORM: f64 = 1e-7;

/// A number in `[0, 1)` from the word's low 23 bits.
#[inline(always)]
pub(crate) fn uniform_f32(x: u32) -> f32 {
    f32::from_bits(127 << 23 | x & 0x7f_ffff) - 1.0
}

/// A number in `[0, 1)` from the low 20 bits of `high` and all of `low`.
#[inline(always)]
pub(crate) fn uniform_f64(high: u32, low: u32) -> f64 {
    f64::from_bits(1023 << 52 | u64::from(high & 0xf_ffff) << 32 | u64::from(low)) - 1.0
}

/// Two independent normal numbers from two random words.
#[inline(always)]
pub(crate) fn normal_pair_f32(x0: u32, x1: u32) -> [f32; 2] {
    let u = uniform_f32(x0);
    let u = if u < MIN_UNIFORM as f32 {
        MIN_UNIFORM as f32
    } else {
        u
    };
    let radius = (-2.0 * ln_normal(u)).sqrt();
    // TensorFlow multiplies in f64 as well: near a multiple of pi / 2 the last bit of the angle counts.
    let angle = (std::f64::consts::TAU * f64::from(uniform_f32(x1))) as f32;
    let (sin, cos) = sin_cos(angle);
    [sin * radius, cos * radius]
}

/// Two independent normal numbers from four random words.
#[inline(always)]
pub(super) fn normal_pair_f64(x: [u32; 4]) -> [f64; 2] {
    let u = uniform_f64(x[0], x[1]);
    let radius = (-2.0 * u.max(MIN_UNIFORM).ln()).sqrt();
    let (sin, cos) = (std::f64::consts::TAU * uniform_f64(x[2], x[3])).sin_cos();
    [sin * radius, cos * radius]
}

/// Sine and cosine of a number between 0 and 2 pi.
#[inline(always)]
fn sin_cos(x: f32) -> (f32, f32) {
    let shifted = x * consts::FRAC_2_PI + ROUND;
    let (quadrant, q) = (shifted.to_bits(), shifted - ROUND);
    let r = (x - q * FRAC_PI_2_HIGH) - q * FRAC_PI_2_LOW;
    // Series at 0; r is at most pi / 4 away from it.
    let t = r * r;
    let sin = t * (-1.0 / 6.0 + t * (1.0 / 120.0 + t * (-1.0 / 5040.0 + t * (1.0 / 362_880.0))));
    let sin = r + r * sin;
    let cos =
        t * (1.0 / 24.0 + t * (-1.0 / 720.0 + t * (1.0 / 40_320.0 - t * (1.0 / 3_628_800.0))));
    let cos = 1.0 - (0.5 * t - t * cos);
    // Selects by bits: a compiler may turn a condition into a branch.
    let (sin, cos) = (sin.to_bits(), cos.to_bits());
    let swap = (sin ^ cos) & 0u32.wrapping_sub(quadrant & 1);
    let negative = |quadrant: u32| (quadrant & 2) << 30;
    (
        f32::from_bits(sin ^ swap ^ negative(quadrant)),
        f32::from_bits(cos ^ swap ^ negative(quadrant.wrapping_add(1))),
    )
}

const FRAC_PI_2_HIGH: f32 = high(std::f64::consts::FRAC_PI_2);
const FRAC_PI_2_LOW: f32 = (std::f64::consts::FRAC_PI_2 - FRAC_PI_2_HIGH as f64) as f32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of a grid over `[0, 1)`, with all numbers near both ends.
    fn uniforms() -> impl Iterator<Item = f32> {
        let ends = (0..2000).chain((1 << 23) - 2000..1 << 23);
        (0..1 << 23).step_by(997).chain(ends).map(uniform_f32)
    }

    #[test]
    fn sin_cos_is_as_accurate_as_an_f32_angle_allows() {
        for x in uniforms().map(|u| consts::TAU * u) {
            let (sin, cos) = sin_cos(x);
            let (exact_sin, exact_cos) = f64::from(x).sin_cos();
            assert!((f64::from(sin) - exact_sin).abs() < 1e-7, "sin {x}: {sin}");
            assert!((f64::from(cos) - exact_cos).abs() < 1e-7, "cos {x}: {cos}");
        }
    }

    #[test]
    fn uniform_numbers_stay_below_one() {
        for x in [0, 1, 0x7f_ffff, 0x80_0000, u32::MAX] {
            assert!((0.0..1.0).contains(&uniform_f32(x)), "{x}");
            assert!((0.0..1.0).contains(&uniform_f64(x, u32::MAX)), "{x}");
        }
    }

    #[test]
    fn the_largest_normal_number_is_finite() {
        for x1 in [0, 1 << 21, 1 << 22, 0x7f_ffff] {
            for v in normal_pair_f32(0, x1) {
                assert!(v.abs() < 5.7, "{v}");
            }
        }
    }
}
