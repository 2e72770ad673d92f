//! Integrals that are no elementary functions: Dawson's, the exponential, Fresnel's and Spence's.

use std::f64::consts::{FRAC_PI_2, PI};

use super::polynomial::falling_sum;

/// The limit of the harmonic sums less the logarithm.
pub(super) const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

/// Dawson's integral: `exp(-x^2)` times the integral of `exp(t^2)` from 0 to x.
pub fn dawsn(x: f64) -> f64 {
    let far = 10.0;
    if x.abs() >= far {
        let y = 0.5 / (x * x);
        return 0.5 / x * falling_sum(|term, n| term * y * (2.0 * n - 1.0));
    }
    // Rybicki's sum over odd multiples of a step; its error is exp(-(pi / (2 step))^2).
    const STEP: f64 = 0.2;
    const TERMS: i32 = 45;
    let term = |n: i32| {
        let t = f64::from(2 * n + 1) * STEP;
        (-x * x - t * t).exp() * (2.0 * x * t).sinh() / f64::from(2 * n + 1)
    };
    (0..TERMS).map(term).sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
}

/// The exponential integral Ei: the integral of `exp(t) / t` from minus infinity to x; NaN for a negative x.
pub fn expint(x: f64) -> f64 {
    match x {
        _ if x < 0.0 || !x.is_finite() => f64::NAN,
        _ if x < 40.0 => {
            // The term x^n / n! is divided by n.
            let mut power = 1.0;
            let mut sum = 0.0;
            for n in 1..200 {
                power *= x / f64::from(n);
                sum += power / f64::from(n);
            }
            EULER_GAMMA + x.ln() + sum
        }
        // The half of the exponent keeps the product finite where the result is.
        _ => {
            let half = (0.5 * x).exp();
            half * (half / x * falling_sum(|term, n| term * n / x))
        }
    }
}

/// Spence's function, the dilogarithm of `1 - x`: the integral of `ln(t) / (1 - t)` from 1 to x. NaN for a negative x.
pub fn spence(x: f64) -> f64 {
    const ALL: f64 = PI * PI / 6.0;
    match x {
        _ if x < 0.0 || !x.is_finite() => f64::NAN,
        0.0 => ALL,
        _ if x > 2.0 => -0.5 * x.ln() * x.ln() - spence(x.recip()),
        _ if x < 0.5 => ALL - x.ln() * (-x).ln_1p() - spence(1.0 - x),
        _ => bernoulli_sum(-(x - 1.0).ln_1p()),
    }
}

/// The dilogarithm of `1 - exp(-u)`, for a small `u`: the sum of `B_n u^(n + 1) / (n + 1)!`.
fn bernoulli_sum(u: f64) -> f64 {
    /// The Bernoulli numbers of even index.
    const BERNOULLI: [f64; 10] = [
        1.0 / 6.0,
        -1.0 / 30.0,
        1.0 / 42.0,
        -1.0 / 30.0,
        5.0 / 66.0,
        -691.0 / 2730.0,
        7.0 / 6.0,
        -3617.0 / 510.0,
        43867.0 / 798.0,
        -174_611.0 / 330.0,
    ];
    let (mut sum, mut power) = (u - 0.25 * u * u, u);
    for (k, b) in BERNOULLI.iter().enumerate() {
        let n = 2.0 * k as f64 + 2.0;
        power *= u * u / (n * (n + 1.0));
        sum += b * power;
    }
    sum
}

/// The Fresnel integrals: of `cos(pi t^2 / 2)` and of `sin(pi t^2 / 2)`, from 0 to x.
pub fn fresnel(x: f64) -> (f64, f64) {
    let a = x.abs();
    let (c, s) = match a {
        _ if a.is_nan() => (x, x),
        _ if a < 1.5 => fresnel_series(a),
        // Beyond it the integrals oscillate by less than the last bit.
        _ if a > 1e15 => (0.5, 0.5),
        _ => fresnel_trapezoids(a),
    };
    (c.copysign(x), s.copysign(x))
}

/// Both integrals by their power series.
fn fresnel_series(x: f64) -> (f64, f64) {
    let y = FRAC_PI_2 * x * x;
    let (mut c, mut s) = (0.0, 0.0);
    // y^n / n!, alternately of the cosine and of the sine.
    let mut term = x;
    for n in 0..40 {
        let value = term / f64::from(2 * n + 1);
        match n % 4 {
            0 => c += value,
            1 => s += value,
            2 => c -= value,
            _ => s -= value,
        }
        term *= y / f64::from(n + 1);
    }
    (c, s)
}

/// Both integrals by the modified trapezium rule of M. Alazah, S. N. Chandler-Wilde and S. La Porte, Computing Fresnel
/// integrals via modified trapezium rules, 2014.
fn fresnel_trapezoids(x: f64) -> (f64, f64) {
    const POINTS: i32 = 12;
    let scale = ((f64::from(POINTS) + 0.5) * PI).sqrt();
    let y = FRAC_PI_2 * x * x;
    let (mut a, mut b) = (0.0, 0.0);
    for k in 1..=POINTS {
        let t = (f64::from(k) - 0.5) * PI / scale;
        let weight = (-t * t).exp() / (y * y + t * t * t * t);
        a += weight * y;
        b += weight * t * t;
    }
    let (sin, cos) = y.sin_cos();
    let factor = PI.sqrt() * x / scale;
    // The pole's part: its hyperbolic functions outgrow the others before they overflow.
    let z = PI.sqrt() * scale * x;
    let (plus, minus) = match z {
        _ if z > 40.0 => (1.0, 1.0),
        _ => {
            let below = z.cos() + z.cosh();
            ((z.sinh() + z.sin()) / below, (z.sinh() - z.sin()) / below)
        }
    };
    (
        0.5 * plus + factor * (a * sin - b * cos),
        0.5 * minus - factor * (a * cos + b * sin),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways to compute a value agree where they meet.
    #[test]
    fn the_fresnel_series_meets_the_trapezoids() {
        for x in [1.0, 1.3, 1.5, 1.9] {
            let ((c, s), (d, t)) = (fresnel_series(x), fresnel_trapezoids(x));
            assert!(
                (c - d).abs() < 1e-14 && (s - t).abs() < 1e-14,
                "{x}: {c} {s} {d} {t}"
            );
        }
    }

    #[test]
    fn slopes_are_the_integrands() {
        let slope = |f: &dyn Fn(f64) -> f64, x: f64| (f(x + 1e-4) - f(x - 1e-4)) / 2e-4;
        for x in [0.3, 0.6, 1.2, 2.6, 9.98, 30.0, 41.0] {
            let close =
                |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * b.abs().max(1.0), "{x}: {a} {b}");
            close(slope(&dawsn, x), 1.0 - 2.0 * x * dawsn(x));
            close(slope(&spence, x), x.ln() / (1.0 - x));
            close(slope(&expint, x) / (x.exp() / x), 1.0);
        }
    }
}
