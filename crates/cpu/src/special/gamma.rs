//! The incomplete gamma functions.

use super::digamma;
use super::polynomial::SINGLE_ERROR;

/// Maximum number of terms: a series that has not converged by then does not.
const TERMS: usize = 2000;

/// A value and its derivative by `a`.
type WithSlope = (f64, f64);

/// A sum that ends at a relative error. Derivatives are computed with `SLOPE`, and 0 without it.
#[derive(Clone, Copy)]
struct Sum<const SLOPE: bool> {
    error: f64,
}

impl<const SLOPE: bool> Sum<SLOPE> {
    /// `x^a exp(-x) / gamma(a)` and its derivative, where `a` and `x` are positive.
    fn front(self, a: f64, x: f64) -> WithSlope {
        let log = x.ln();
        let value = (a * log - x - libm::lgamma(a)).exp();
        let slope = if SLOPE {
            value * (log - digamma(a))
        } else {
            0.0
        };
        (value, slope)
    }

    /// The last change of a sum that is exact enough. Where `x` is near a large `a`, changes become smaller by one part in
    /// its square root at a time, so the rest of the sum is so many times the last one.
    fn error_of_change(self, a: f64) -> f64 {
        (self.error / (1.0 + a).sqrt()).max(f64::EPSILON)
    }

    /// The lower one by its power series, for small `x`:
    /// `x^a exp(-x) / gamma(a + 1)` times the sum of `x^n / ((a + 1) ... (a + n))`.
    fn series(self, a: f64, x: f64) -> WithSlope {
        let (front, front_slope) = self.front(a, x);
        if front == 0.0 {
            return (0.0, 0.0);
        }
        let front_slope = if SLOPE {
            front_slope / a - front / (a * a)
        } else {
            0.0
        };
        let front = front / a;
        let (mut term, mut term_slope) = (1.0, 0.0);
        let (mut sum, mut sum_slope) = (1.0, 0.0);
        let error = self.error_of_change(a);
        for n in 1..TERMS {
            let next = a + n as f64;
            let ratio = x / next;
            if SLOPE {
                term_slope = (term_slope - term / next) * ratio;
                sum_slope += term_slope;
            }
            term *= ratio;
            sum += term;
            let settled = !SLOPE || term_slope.abs() <= error * sum_slope.abs();
            if term <= error * sum && settled {
                break;
            }
        }
        (sum * front, sum * front_slope + sum_slope * front)
    }

    /// The upper one by its continued fraction, for large `x`, from Wallis's recurrence:
    /// `x^a exp(-x) / gamma(a)` times `1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...))`.
    fn fraction(self, a: f64, x: f64) -> WithSlope {
        // Numerators and denominators grow; both are scaled down together.
        const LARGE: f64 = 4503599627370496.0;
        let (front, front_slope) = self.front(a, x);
        if x.is_infinite() || front == 0.0 {
            return (0.0, 0.0);
        }
        let mut above = [(1.0, 0.0), (x + 1.0, 0.0)];
        let mut below = [(x, 0.0), ((x + 2.0 - a) * x, -x)];
        let quotient = |p: WithSlope, q: WithSlope| {
            let value = p.0 / q.0;
            let slope = if SLOPE {
                (p.1 - value * q.1) / q.0
            } else {
                0.0
            };
            (value, slope)
        };
        let mut sum = quotient(above[1], below[1]);
        let error = self.error_of_change(a);
        for n in 1..TERMS {
            let n = n as f64;
            let (by, back) = (x + 2.0 * n + 2.0 - a, n * (n + 1.0 - a));
            let step = |[far, near]: [WithSlope; 2]| {
                let value = near.0 * by - far.0 * back;
                let slope = match SLOPE {
                    true => near.1 * by - near.0 - far.1 * back + far.0 * n,
                    false => 0.0,
                };
                [near, (value, slope)]
            };
            (above, below) = (step(above), step(below));
            if below[1].0 != 0.0 {
                let last = std::mem::replace(&mut sum, quotient(above[1], below[1]));
                let change = (last.0 - sum.0).abs();
                if change <= error * sum.0.abs() && (last.1 - sum.1).abs() <= error {
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
    fn lower(self, a: f64, x: f64) -> WithSlope {
        if x == 0.0 {
            (0.0, 0.0)
        } else if !(a > 0.0 && x > 0.0) || a.is_infinite() && x.is_infinite() {
            (f64::NAN, f64::NAN)
        } else if a.is_infinite() {
            (0.0, 0.0)
        } else if x > 1.0 && x > a {
            let (upper, slope) = self.fraction(a, x);
            (1.0 - upper, -slope)
        } else {
            self.series(a, x)
        }
    }

    /// The upper one; NaN where `a` is not positive or `x` is negative.
    fn upper(self, a: f64, x: f64) -> f64 {
        if !(a > 0.0 && x >= 0.0) {
            f64::NAN
        } else if x < 1.0 || x < a || a.is_infinite() {
            1.0 - self.lower(a, x).0
        } else {
            self.fraction(a, x).0
        }
    }
}

const VALUE: Sum<false> = Sum {
    error: f64::EPSILON,
};

/// For results that are rounded to `f32`.
const SINGLE: Sum<false> = Sum {
    error: SINGLE_ERROR,
};

const SLOPE: Sum<true> = Sum {
    error: f64::EPSILON,
};

/// The part of `gamma(a)` that its integral gains up to `x`.
pub fn igamma(a: f64, x: f64) -> f64 {
    VALUE.lower(a, x).0
}

/// As [`igamma`], exact enough for `f32`.
pub fn igamma_single(a: f64, x: f64) -> f64 {
    SINGLE.lower(a, x).0
}

/// The part of `gamma(a)` that its integral gains from `x` on.
pub fn igammac(a: f64, x: f64) -> f64 {
    VALUE.upper(a, x)
}

/// As [`igammac`], exact enough for `f32`.
pub fn igammac_single(a: f64, x: f64) -> f64 {
    SINGLE.upper(a, x)
}

/// The derivative of [`igamma`] by `a`.
pub fn igamma_slope(a: f64, x: f64) -> f64 {
    SLOPE.lower(a, x).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrals_for_singles_are_as_exact_as_a_single() {
        for a in [0.5, 3.0, 100.0, 1e3, 1e4, 1e5] {
            for by in [-3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 3.0f64] {
                let x = (a + by * f64::sqrt(a)).max(0.01);
                let pairs = [
                    (igamma(a, x), igamma_single(a, x)),
                    (igammac(a, x), igammac_single(a, x)),
                ];
                for (exact, found) in pairs {
                    let off = (found - exact).abs() / exact;
                    assert!(off < f64::from(f32::EPSILON) / 4.0, "{a} {x}: {off:e}");
                }
            }
        }
    }
}
