//! Hyperbolic functions and their inverses.

use super::exponential::{exp_m1, ln, ln_1p};

/// Above this size, squares are only the square.
const LARGE: f64 = 1e9;

/// The hyperbolic sine.
#[inline(always)]
pub fn sinh(x: f64) -> f64 {
    // By halves where the exponential is infinite and the sine is not.
    let size = x.abs();
    let large = size > 700.0;
    let e = exp_m1(if large { size - 1.0 } else { size });
    let found = if large {
        e * (0.5 * std::f64::consts::E)
    } else {
        0.5 * (e + e / (e + 1.0))
    };
    found.copysign(x)
}

/// The hyperbolic cosine.
#[inline(always)]
pub fn cosh(x: f64) -> f64 {
    let size = x.abs();
    let large = size > 700.0;
    let e = exp_m1(if large { size - 1.0 } else { size });
    if large {
        e * (0.5 * std::f64::consts::E)
    } else {
        1.0 + 0.5 * e * (e / (e + 1.0))
    }
}

/// The inverse hyperbolic sine.
#[inline(always)]
pub fn asinh(x: f64) -> f64 {
    let size = x.abs();
    let large = size > LARGE;
    let root = (1.0 + size * size).sqrt();
    let near = ln_1p(size + size * size / (1.0 + root));
    let far = ln(size) + std::f64::consts::LN_2;
    (if large { far } else { near }).copysign(x)
}

/// The inverse hyperbolic cosine; NaN below 1.
#[inline(always)]
pub fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    let near = ln_1p(t + (2.0 * t + t * t).sqrt());
    let far = ln(x) + std::f64::consts::LN_2;
    let found = if x > LARGE { far } else { near };
    if x < 1.0 { f64::NAN } else { found }
}

/// The inverse hyperbolic tangent.
#[inline(always)]
pub fn atanh(x: f64) -> f64 {
    let size = x.abs();
    (0.5 * ln_1p(2.0 * size / (1.0 - size))).copysign(x)
}
