//! Tests of the accuracy of `f32` exponentials and logarithms, in units in the last place.

use super::*;

/// Numbers of both signs and every magnitude, with NaN and the infinities.
fn floats() -> impl Iterator<Item = f32> {
    let special = [
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -1.0,
        1.0,
        -2.0,
    ];
    let bits = (0..=u32::MAX).step_by(1009).map(f32::from_bits);
    bits.chain(special)
        .chain((-110_000..100_000).map(|i| i as f32 * 1e-3))
}

/// The distance to `exact` in units of the last place of its rounding.
fn ulps(found: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if found.is_nan() && rounded.is_nan() || found == rounded {
        return 0.0;
    }
    if !rounded.is_finite() || !found.is_finite() {
        return f64::INFINITY;
    }
    let unit = f64::from(rounded.abs().next_up()) - f64::from(rounded.abs());
    (f64::from(found) - exact).abs() / unit
}

#[track_caller]
fn is_within(most: f64, f: fn(f32) -> f32, exact: fn(f64) -> f64) {
    for x in floats() {
        let (found, exact) = (f(x), exact(f64::from(x)));
        let off = ulps(found, exact);
        assert!(
            off <= most,
            "f({x:e}) is {found:e}, not {exact:e}: {off} ulps"
        );
    }
}

#[test]
fn the_exponential_is_hardly_more_than_an_ulp_off() {
    is_within(1.1, exp, f64::exp);
}

#[test]
fn the_exponential_less_one_is_within_two_ulps() {
    is_within(2.0, exp_m1, f64::exp_m1);
}

#[test]
fn the_hyperbolic_tangent_is_within_three_ulps() {
    is_within(3.0, tanh, f64::tanh);
}

#[test]
fn the_logarithm_is_within_an_ulp() {
    is_within(1.0, ln, f64::ln);
}

#[test]
fn the_logarithm_of_one_more_is_within_three_ulps() {
    is_within(3.0, ln_1p, f64::ln_1p);
}

#[test]
fn zeros_keep_their_signs() {
    for f in [exp_m1, tanh, ln_1p] {
        assert_eq!(f(-0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(f(0.0).to_bits(), 0);
    }
}

#[test]
fn the_error_function_is_within_five_ulps() {
    for i in -60_000i32..60_000 {
        let x = i as f32 * 1e-4;
        let exact = libm::erf(f64::from(x));
        let off = (f64::from(erf(x)) - exact).abs();
        assert!(
            off <= 5.0 * f64::from(f32::EPSILON) * exact.abs(),
            "erf({x}): {off:e}"
        );
    }
    assert_eq!((erf(9.0), erf(f32::NEG_INFINITY)), (1.0, -1.0));
    assert!(erf(f32::NAN).is_nan());
}

#[test]
fn integers_are_those_of_a_cast() {
    let bounds = [
        2_147_483_648.0f32,
        2_147_483_520.0,
        -2_147_483_648.0,
        -2_147_483_904.0,
    ];
    let near = bounds.iter().flat_map(|x| [x.next_down(), *x, x.next_up()]);
    for x in floats().chain(near) {
        assert_eq!(to_i32(x), x as i32, "{x}");
    }
}

#[test]
fn the_inverse_sine_and_cosine_are_within_four_ulps() {
    is_within(4.0, asin, f64::asin);
    is_within(4.0, acos, f64::acos);
}
