//! Functions of complex numbers that keep their digits, and do not overflow, where the textbook's formula does not.

use thalweg_tensor::num_complex::Complex;

/// `log(1 + z)`: exact to the last digits near 0.
pub(super) fn ln_1p(z: Complex<f64>) -> Complex<f64> {
    // |1 + z|^2 - 1.
    let above = z.re * (2.0 + z.re) + z.im * z.im;
    Complex::new(0.5 * above.ln_1p(), z.im.atan2(1.0 + z.re))
}

/// `exp(z) - 1`: exact to the last digits near 0.
pub(super) fn exp_m1(z: Complex<f64>) -> Complex<f64> {
    let (sin, cos) = z.im.sin_cos();
    let half = (0.5 * z.im).sin();
    Complex::new(z.re.exp_m1() * cos - 2.0 * half * half, z.re.exp() * sin)
}

/// `z` to the power of `exponent`; of 0, it is 0 to a power whose real part is positive, and NaN to others, as in
/// TensorFlow.
pub(super) fn power(z: Complex<f64>, exponent: Complex<f64>) -> Complex<f64> {
    let zero = Complex::new(0.0, 0.0);
    if z == zero {
        return match exponent.re > 0.0 {
            true => zero,
            false => Complex::new(f64::NAN, f64::NAN),
        };
    }
    z.powc(exponent)
}

/// The real part above which a hyperbolic tangent is 1 to the last digit, and its exponentials soon overflow.
const TANH_IS_ONE: f64 = 20.0;

/// The hyperbolic tangent.
pub(super) fn tanh(z: Complex<f64>) -> Complex<f64> {
    match z.re.abs() > TANH_IS_ONE {
        true => Complex::new(1f64.copysign(z.re), 0.0),
        false => z.tanh(),
    }
}

/// The tangent.
pub(super) fn tan(z: Complex<f64>) -> Complex<f64> {
    let turned = tanh(Complex::new(-z.im, z.re));
    Complex::new(turned.im, -turned.re)
}

/// The inverse hyperbolic sine: odd, and computed where its sum does not cancel.
pub(super) fn asinh(z: Complex<f64>) -> Complex<f64> {
    match z.re < 0.0 {
        true => -(-z).asinh(),
        false => z.asinh(),
    }
}

/// The inverse sine.
pub(super) fn asin(z: Complex<f64>) -> Complex<f64> {
    let turned = asinh(Complex::new(-z.im, z.re));
    Complex::new(turned.im, -turned.re)
}

/// The inverse cosine.
pub(super) fn acos(z: Complex<f64>) -> Complex<f64> {
    Complex::from(std::f64::consts::FRAC_PI_2) - asin(z)
}

/// The inverse hyperbolic tangent.
pub(super) fn atanh(z: Complex<f64>) -> Complex<f64> {
    (ln_1p(z) - ln_1p(-z)) * 0.5
}

/// The inverse tangent.
pub(super) fn atan(z: Complex<f64>) -> Complex<f64> {
    let turned = atanh(Complex::new(-z.im, z.re));
    Complex::new(turned.im, -turned.re)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_keep_their_digits() {
        let z = Complex::new(1e-12, -1e-12);
        assert!((ln_1p(z) - z).norm() < 1e-22);
        assert!((exp_m1(z) - z).norm() < 1e-22);
        assert!((atan(z) - z).norm() < 1e-22);
    }

    #[test]
    fn large_numbers_do_not_overflow() {
        assert_eq!(tanh(Complex::new(-800.0, 1.0)), Complex::new(-1.0, 0.0));
        assert_eq!(tan(Complex::new(1.0, 800.0)), Complex::new(0.0, 1.0));
        let far = asinh(Complex::new(-1e8, 0.0));
        assert!((far.re + 1e8f64.asinh()).abs() < 1e-14 * far.re.abs());
    }
}
