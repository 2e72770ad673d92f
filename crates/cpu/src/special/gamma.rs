//! The incomplete gamma functions.

use super::digamma;

/// Maximum number of terms: a series that has not converged by then does not.
const TERMS: usize = 2000;

/// A value and its derivative by `a`.
type WithSlope = (f64, f64);

/// `x^a exp(-x) / gamma(a)` and its derivative, where `a` and `x` are positive.
fn front(a: f64, x: f64) -> WithSlope {
    let value = (a * x.ln() - x - libm::lgamma(a)).exp();
    (value, value * (x.ln() - digamma(a)))
}

/// The lower one by its power series, for small `x`:
/// `x^a exp(-x) / gamma(a + 1)` times the sum of `x^n / ((a + 1) ... (a + n))`.
fn series(a: f64, x: f64) -> WithSlope {
    let (front, front_slope) = front(a, x);
    if front == 0.0 {
        return (0.0, 0.0);
    }
    let (front, front_slope) = (front / a, front_slope / a - front / (a * a));
    let (mut term, mut term_slope) = (1.0, 0.0);
    let (mut sum, mut sum_slope) = (1.0, 0.0);
    for n in 1..TERMS {
        let next = a + n as f64;
        term_slope = (term_slope - term / next) * x / next;
        term *= x / next;
        sum += term;
        sum_slope += term_slope;
        if term <= f64::EPSILON * sum && term_slope.abs() <= f64::EPSILON * sum_slope.abs() {
            break;
        }
    }
    (sum * front, sum * front_slope + sum_slope * front)
}

/// The upper one by its continued fraction, for large `x`, from Wallis's recurrence:
/// `x^a exp(-x) / gamma(a)` times `1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...))`.
fn fraction(a: f64, x: f64) -> WithSlope {
    // Numerators and denominators grow; both are scaled down together.
    const LARGE: f64 = 4503599627370496.0;
    let (front, front_slope) = front(a, x);
    if x.is_infinite() || front == 0.0 {
        return (0.0, 0.0);
    }
    let mut above = [(1.0, 0.0), (x + 1.0, 0.0)];
    let mut below = [(x, 0.0), ((x + 2.0 - a) * x, -x)];
    let quotient = |p: WithSlope, q: WithSlope| {
        let value = p.0 / q.0;
        (value, (p.1 - value * q.1) / q.0)
    };
    let mut sum = quotient(above[1], below[1]);
    for n in 1..TERMS {
        let n = n as f64;
        let (by, back) = (x + 2.0 * n + 2.0 - a, n * (n + 1.0 - a));
        let step = |[far, near]: [WithSlope; 2]| {
            let value = near.0 * by - far.0 * back;
            let slope = near.1 * by - near.0 - far.1 * back + far.0 * n;
            [near, (value, slope)]
        };
        (above, below) = (step(above), step(below));
        if below[1].0 != 0.0 {
            let last = std::mem::replace(&mut sum, quotient(above[1], below[1]));
            let settled = |old: f64, new: f64| (old - new).abs() <= f64::EPSILON * new.abs();
            if settled(last.0, sum.0) && (last.1 - sum.1).abs() <= f64::EPSILON {
                break;
            }
        }
        if above[1].0.abs() > LARGE {
            for (value, slope) in above.iter_mut().chain(&mut below) {
                *value /= LARGE;
                *slope /= LARGE;
            }
        }
    }
    (sum.0 * front, sum.0 * front_slope + sum.1 * front)
}

/// The lower one and its derivative by `a`; NaN where `a` is not positive or `x` is negative.
fn lower(a: f64, x: f64) -> WithSlope {
    if x == 0.0 {
        (0.0, 0.0)
    } else if !(a > 0.0 && x > 0.0) || a.is_infinite() && x.is_infinite() {
        (f64::NAN, f64::NAN)
    } else if a.is_infinite() {
        (0.0, 0.0)
    } else if x > 1.0 && x > a {
        let (upper, slope) = fraction(a, x);
        (1.0 - upper, -slope)
    } else {
        series(a, x)
    }
}

/// The part of `gamma(a)` that its integral gains up to `x`.
pub fn igamma(a: f64, x: f64) -> f64 {
    lower(a, x).0
}

/// The part of `gamma(a)` that its integral gains from `x` on.
pub fn igammac(a: f64, x: f64) -> f64 {
    if !(a > 0.0 && x >= 0.0) {
        f64::NAN
    } else if x < 1.0 || x < a || a.is_infinite() {
        1.0 - lower(a, x).0
    } else {
        fraction(a, x).0
    }
}

/// The derivative of [`igamma`] by `a`.
pub fn igamma_slope(a: f64, x: f64) -> f64 {
    lower(a, x).1
}
