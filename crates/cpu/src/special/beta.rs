//! The incomplete beta function.

use super::polynomial::SINGLE_ERROR;

/// Maximum number of terms: a fraction that has not converged by then is as good as it gets.
const TERMS: u32 = 4000;

/// The part of the beta function of `a` and `b` that its integral gains up to `x`. NaN where `a` or `b` is not positive
/// and finite, or `x` is outside of 0 to 1.
pub fn betainc(a: f64, b: f64, x: f64) -> f64 {
    to_error(a, b, x, f64::EPSILON)
}

/// As [`betainc`], exact enough for `f32`.
pub fn betainc_single(a: f64, b: f64, x: f64) -> f64 {
    // Near the mean changes become smaller by one part in this root at a time: the rest is so many times the last one.
    let error = SINGLE_ERROR / (1.0 + a + b).sqrt();
    to_error(a, b, x, error.max(f64::EPSILON))
}

/// As [`betainc`], with a fraction that ends at a relative error.
fn to_error(a: f64, b: f64, x: f64, error: f64) -> f64 {
    let positive = |v: f64| v > 0.0 && v.is_finite();
    if !(positive(a) && positive(b) && (0.0..=1.0).contains(&x)) {
        f64::NAN
    } else if x == 0.0 || x == 1.0 {
        x
    } else if x > (a + 1.0) / (a + b + 2.0) {
        // The fraction converges fast on the other side.
        1.0 - lower([b, a], [1.0 - x, x], error)
    } else {
        lower([a, b], [x, 1.0 - x], error)
    }
}

/// The part below `x`, by the continued fraction `front / (1 + d1 / (1 + d2 / ...))`; `y` is `1 - x`.
fn lower([a, b]: [f64; 2], [x, y]: [f64; 2], error: f64) -> f64 {
    let log = libm::lgamma;
    let front = (a * x.ln() + b * y.ln() + log(a + b) - log(a + 1.0) - log(b)).exp();
    // Lentz's method: quotients of successive numerators, and of denominators. None may be zero.
    const TINY: f64 = 1e-300;
    let guard = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut above, mut below, mut fraction) = (1.0, 0.0, 1.0);
    let mut was_small = false;
    for n in 1..TERMS {
        let m = f64::from(n / 2);
        let d = match n % 2 {
            0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        below = guard(1.0 + d * below).recip();
        above = guard(1.0 + d / above);
        let change = above * below;
        fraction *= change;
        // Beside a large `a` every second change is small from the start.
        let is_small = (change - 1.0).abs() <= error;
        if is_small && was_small {
            break;
        }
        was_small = is_small;
    }
    front / fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_incomplete_beta_functions() {
        for x in [1e-9f64, 0.1, 0.5, 0.9, 0.999] {
            for a in [0.3, 1.0, 7.5, 120.0] {
                let (wanted, got) = (x.powf(a), betainc(a, 1.0, x));
                assert!(
                    (wanted - got).abs() <= 1e-13 * wanted,
                    "{a} {x}: {wanted} {got}"
                );
            }
        }
    }

    #[test]
    fn integrals_for_singles_are_as_exact_as_a_single() {
        for size in [1.0, 30.0, 1e3, 1e5, 1e6] {
            for part in [0.1, 0.5, 0.8] {
                let (a, b) = (size * part, size * (1.0 - part));
                for by in [-2.0, -0.1, 0.0, 0.3, 2.0f64] {
                    let deviation = f64::sqrt(part * (1.0 - part) / (size + 1.0));
                    let x = (part + by * deviation).clamp(0.01, 0.99);
                    let (exact, found) = (betainc(a, b, x), betainc_single(a, b, x));
                    let off = (found - exact).abs() / exact;
                    assert!(off < f64::from(f32::EPSILON) / 4.0, "{a} {b} {x}: {off:e}");
                }
            }
        }
    }

    #[test]
    fn a_large_and_a_small_parameter_need_many_terms() {
        // By TensorFlow's kernel in f64.
        for (a, b, x, exact) in [
            (83_266.84_f32, 0.998_406_5_f32, 0.99996656f32, 0.061585),
            (8_981.809, 0.28296313, 0.99984396, 0.04462981),
        ] {
            let [a, b, x] = [a, b, x].map(f64::from);
            for found in [betainc(a, b, x), betainc_single(a, b, x)] {
                assert!((found / exact - 1.0).abs() < 2e-6, "{a} {b} {x}: {found}");
            }
        }
    }

    #[test]
    fn the_two_sides_add_up_to_one() {
        for (a, b, x) in [(2.5, 0.7, 0.3), (40.0, 60.0, 0.41), (0.01, 9.0, 0.2)] {
            let sum = betainc(a, b, x) + betainc(b, a, 1.0 - x);
            assert!((sum - 1.0).abs() < 1e-13, "{sum}");
        }
    }
}
