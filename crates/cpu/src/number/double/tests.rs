//! Tests against the system's library.

use super::*;

/// Numbers of all sizes and both signs, and the special ones.
fn numbers() -> Vec<f64> {
    let mut all = vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for exponent in -60..12 {
        for step in 0..200 {
            let x = (1.0 + f64::from(step) * 0.005_13) * 2f64.powi(exponent);
            all.extend([x, -x]);
        }
    }
    all
}

/// Asserts that `own` is within so many units of the last place of `exact`, where `within` holds.
fn close(
    name: &str,
    own: fn(f64) -> f64,
    exact: fn(f64) -> f64,
    within: fn(f64) -> bool,
    units: f64,
) {
    for x in numbers().into_iter().filter(|&x| within(x) || x.is_nan()) {
        let (own, exact) = (own(x), exact(x));
        let both_nan = own.is_nan() && exact.is_nan();
        let off = (own - exact).abs() / (exact.abs() * f64::EPSILON).max(f64::MIN_POSITIVE);
        let fits = both_nan || own == exact || off <= units;
        assert!(
            fits,
            "{name}({x:e}) is {own:e}, and {exact:e} in the library"
        );
        if exact == 0.0 && name != "cos" {
            assert_eq!(
                own.is_sign_negative(),
                exact.is_sign_negative(),
                "{name}({x:e})"
            );
        }
    }
}

#[test]
fn exponentials_and_logarithms_match_the_library() {
    let any = |_: f64| true;
    close(
        "exp",
        exp,
        f64::exp,
        |x| x.abs() < 700.0 || x.is_infinite(),
        3.0,
    );
    close(
        "exp_m1",
        exp_m1,
        f64::exp_m1,
        |x| x.abs() < 700.0 || x.is_infinite(),
        4.0,
    );
    close("ln", ln, f64::ln, any, 2.0);
    close("ln_1p", ln_1p, f64::ln_1p, any, 4.0);
    close("tanh", tanh, f64::tanh, any, 5.0);
    // Beyond the range, and below the normal numbers.
    assert_eq!(exp(800.0), f64::INFINITY);
    assert_eq!(exp(-800.0), 0.0);
    assert_eq!(ln(5e-324), 5e-324f64.ln());
}

#[test]
fn angles_match_the_library() {
    let turns = |x: f64| x.abs() <= MAX_ANGLE;
    close("sin", sin, f64::sin, turns, 3.0);
    close("cos", cos, f64::cos, turns, 3.0);
    close("tan", tan, f64::tan, turns, 6.0);
    close("atan", atan, f64::atan, |_| true, 3.0);
    close("asin", asin, f64::asin, |x| x.abs() <= 1.0, 5.0);
    close("acos", acos, f64::acos, |x| x.abs() <= 1.0, 5.0);
    assert!(asin(1.5).is_nan() && acos(-2.0).is_nan());
    let some = [
        0.0,
        -0.0,
        1.0,
        -2.5,
        1e-300,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    for y in some {
        for x in some {
            let (own, exact) = (atan2(y, x), y.atan2(x));
            assert!(
                (own - exact).abs() <= 4.0 * f64::EPSILON,
                "atan2({y}, {x}): {own} {exact}"
            );
            assert_eq!(
                own.is_sign_negative(),
                exact.is_sign_negative(),
                "atan2({y}, {x})"
            );
        }
    }
    assert!(atan2(f64::NAN, 1.0).is_nan() && atan2(1.0, f64::NAN).is_nan());
}

#[test]
fn hyperbolic_functions_match_the_library() {
    let any = |_: f64| true;
    close("sinh", sinh, f64::sinh, any, 6.0);
    close("cosh", cosh, f64::cosh, any, 6.0);
    close("asinh", asinh, libm::asinh, any, 6.0);
    close("acosh", acosh, libm::acosh, |x| x >= 1.0, 6.0);
    close("atanh", atanh, libm::atanh, |x| x.abs() <= 1.0, 6.0);
    assert!(
        acosh(0.5).is_nan() && acosh(-1.0).is_nan() && acosh(-1e9).is_nan() && atanh(1.5).is_nan()
    );
}

#[test]
fn error_functions_match_the_library() {
    close("erf", erf, libm::erf, |_| true, 3.0);
    close("erfc", erfc, libm::erfc, |x| x < 26.0, 60.0);
    assert_eq!((erfc(40.0), erfc(-40.0)), (0.0, 2.0));
    let near = 1.3e-7 / f64::EPSILON;
    close(
        "erfc_for_single",
        erfc_for_single,
        libm::erfc,
        |x| x < 26.0,
        near,
    );
}
