//! The Bessel functions of order 0 and 1 that stand beside the scaled ones of the first kind: modified ones of both
//! kinds, and those of the second kind.

use super::bessel::{i0e, i1e};
use super::integrals::EULER_GAMMA;

/// The modified one of the first kind and order 0.
pub fn i0(x: f64) -> f64 {
    x.abs().exp() * i0e(x)
}

/// The modified one of the first kind and order 1.
pub fn i1(x: f64) -> f64 {
    x.abs().exp() * i1e(x)
}

/// The modified one of the second kind and order 0; infinite at 0 and below.
pub fn k0(x: f64) -> f64 {
    (-x).exp() * k0e(x)
}

/// The modified one of the second kind and order 1; infinite at 0 and below.
pub fn k1(x: f64) -> f64 {
    (-x).exp() * k1e(x)
}

/// The modified one of the second kind and order 0, times `exp(x)`.
pub fn k0e(x: f64) -> f64 {
    scaled_k(x, |_| 1.0, |x| -(0.5 * x).ln() - EULER_GAMMA)
}

/// The modified one of the second kind and order 1, times `exp(x)`.
pub fn k1e(x: f64) -> f64 {
    scaled_k(x, f64::cosh, f64::recip)
}

/// The integral of `exp(-x (cosh t - 1)) factor(t)` over positive t, by the trapezoidal rule, whose error falls
/// exponentially with the number of points here. Below `NEAR` it is `limit(x)`, to the last bit.
fn scaled_k(x: f64, factor: fn(f64) -> f64, limit: fn(f64) -> f64) -> f64 {
    const NEAR: f64 = 1e-17;
    /// The exponent of the last point that counts.
    const LAST: f64 = 40.0;
    match x {
        _ if x.is_nan() => return x,
        _ if x <= 0.0 => return f64::INFINITY,
        _ if x < NEAR => return limit(x),
        f64::INFINITY => return 0.0,
        _ => {}
    }
    let step = (0.7 / x.sqrt()).min(0.2);
    let (mut sum, mut t) = (0.5, 0.0);
    loop {
        t += step;
        // cosh t - 1, without its cancellation near 0.
        let half = (0.5 * t).sinh();
        let exponent = 2.0 * half * (x * half);
        if exponent > LAST + t {
            return sum * step;
        }
        sum += (-exponent).exp() * factor(t);
    }
}

/// The one of the first kind and order 0; NaN at infinity, as TensorFlow's.
pub fn j0(x: f64) -> f64 {
    finite(x, libm::j0)
}

/// The one of the first kind and order 1; NaN at infinity, as TensorFlow's.
pub fn j1(x: f64) -> f64 {
    finite(x, libm::j1)
}

/// The one of the second kind and order 0; minus infinity at 0 and below.
pub fn y0(x: f64) -> f64 {
    if x <= 0.0 {
        f64::NEG_INFINITY
    } else {
        finite(x, libm::y0)
    }
}

/// The one of the second kind and order 1; minus infinity at 0 and below.
pub fn y1(x: f64) -> f64 {
    if x <= 0.0 {
        f64::NEG_INFINITY
    } else {
        finite(x, libm::y1)
    }
}

fn finite(x: f64, f: fn(f64) -> f64) -> f64 {
    if x.is_finite() { f(x) } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wronskian_of_the_modified_functions_is_the_reciprocal() {
        for x in [1e-12, 1e-9, 1e-3, 0.1, 1.0, 3.7, 40.0, 1e4, 1e9] {
            let wronskian = i0e(x) * k1e(x) + i1e(x) * k0e(x);
            assert!((wronskian * x - 1.0).abs() < 1e-13, "{x}: {wronskian}");
        }
    }
}
