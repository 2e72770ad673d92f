//! The digamma, polygamma and zeta functions.

use std::f64::consts::PI;

use super::polynomial::{SINGLE_ERROR, polynomial};

/// The derivative of the logarithm of the gamma function; NaN at 0, -1, -2 and so on.
pub fn digamma(x: f64) -> f64 {
    const TERMS: [f64; 7] = [
        1.0 / 12.0,
        -691.0 / 32760.0,
        1.0 / 132.0,
        -1.0 / 240.0,
        1.0 / 252.0,
        -1.0 / 120.0,
        1.0 / 12.0,
    ];
    if x <= 0.0 {
        // Reflected: digamma(x) = digamma(1 - x) - pi / tan(pi x). The distance to the nearest whole number is exact, and has
        // the same tangent.
        let distance = x - x.round();
        return match distance.abs() {
            0.0 => f64::NAN,
            // The tangent has a pole there.
            0.5 => digamma(1.0 - x),
            _ => digamma(1.0 - x) - PI / (PI * distance).tan(),
        };
    }
    if x == f64::INFINITY {
        return x;
    }
    let (mut s, mut recurrence) = (x, 0.0);
    while s < 10.0 {
        recurrence += 1.0 / s;
        s += 1.0;
    }
    let z = 1.0 / (s * s);
    s.ln() - 0.5 / s - z * polynomial(z, &TERMS) - recurrence
}

/// The zeta function of Hurwitz: the sum of `(q + n)^-x` over all whole n from 0.
pub fn zeta(x: f64, q: f64) -> f64 {
    zeta_by(x, q, (9, f64::EPSILON / 2.0), f64::powf)
}

/// As [`zeta`], exact enough for `f32`.
pub fn zeta_single(x: f64, q: f64) -> f64 {
    zeta_by(x, q, (4, SINGLE_ERROR), |base, exponent| match base > 0.0 {
        true => (exponent * base.ln()).exp(),
        false => base.powf(exponent),
    })
}

/// As [`zeta`], with powers by a function. At least so many terms, up to so large a base, are added one by one, and the sum
/// ends at a relative error.
#[inline(always)]
fn zeta_by(x: f64, q: f64, (single, error): (usize, f64), power: impl Fn(f64, f64) -> f64) -> f64 {
    // (2k)! / B2k, where B2k are Bernoulli's numbers.
    const TERMS: [f64; 12] = [
        12.0,
        -720.0,
        30240.0,
        -1209600.0,
        47900160.0,
        -1.307_674_368e12 / 691.0,
        7.47242496e10,
        -1.067_062_284_288e16 / 3617.0,
        5.109_094_217_170_944e18 / 43867.0,
        -8.028_576_626_982_912e20 / 174_611.0,
        1.551_121_004_333_098_6e23 / 854_513.0,
        -1.693_824_136_731_743_7e27 / 236_364_091.0,
    ];
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x < 1.0 || x.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    if q == f64::INFINITY {
        return 0.0;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return if x % 2.0 == 0.0 {
                f64::INFINITY
            } else {
                f64::NAN
            };
        }
        if x != x.floor() {
            return f64::NAN;
        }
    }
    // The first terms one by one, the others by the formula of Euler and Maclaurin. Far below zero the terms fall
    // so slowly that no more than a bounded number is added.
    let (mut sum, mut a, mut b) = (power(q, -x), q, 0.0);
    let mut n = 0;
    while n < single || a <= single as f64 {
        n += 1;
        a += 1.0;
        b = power(a, -x);
        sum += b;
        // The terms behind this one are about as much as their integral.
        let rest = b * (1.0 + a.abs() / (x - 1.0));
        if (rest / sum).abs() < error || n > 1 << 20 {
            return sum;
        }
    }
    let w = a;
    sum += b * w / (x - 1.0) - 0.5 * b;
    let (mut factor, mut k) = (1.0, 0.0);
    for term in TERMS {
        factor *= x + k;
        b /= w;
        let t = factor * b / term;
        sum += t;
        if (t / sum).abs() < error {
            break;
        }
        k += 1.0;
        factor *= x + k;
        b /= w;
        k += 1.0;
    }
    sum
}

/// The derivative of order `n`, a whole number, of [`digamma`].
pub fn polygamma(n: f64, x: f64) -> f64 {
    polygamma_by(n, x, zeta)
}

/// As [`polygamma`], exact enough for `f32`.
pub fn polygamma_single(n: f64, x: f64) -> f64 {
    polygamma_by(n, x, zeta_single)
}

fn polygamma_by(n: f64, x: f64, zeta: fn(f64, f64) -> f64) -> f64 {
    if n != n.floor() || n < 0.0 {
        return f64::NAN;
    }
    if n == 0.0 {
        return digamma(x);
    }
    let next = n + 1.0;
    let sign = if next % 2.0 == 0.0 { 1.0 } else { -1.0 };
    sign * libm::lgamma(next).exp() * zeta(next, x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_for_singles_is_as_exact_as_a_single() {
        let near_1 = 1.0 + f64::from(f32::EPSILON);
        for x in [near_1, 1.0001, 1.001, 1.5, 2.0, 3.7, 8.5, 20.0, 60.0] {
            for q in [1e-9, 3e-8, 1e-3, 0.3, 1.0, 2.2, 3.9, 4.1, 9.0, 77.0, 1e5] {
                let (exact, found) = (zeta(x, q), zeta_single(x, q));
                let off = (found - exact).abs() / exact;
                let same = found == exact || exact < 1e-300;
                assert!(
                    off < f64::from(f32::EPSILON) / 4.0 || same,
                    "{x} {q}: {off:e}"
                );
            }
        }
        // Below zero there is one for whole numbers.
        assert!((zeta_single(2.0, -1.5) / zeta(2.0, -1.5) - 1.0).abs() < 1e-8);
        assert_eq!(zeta_single(1.0, 2.0), f64::INFINITY);
    }
}
