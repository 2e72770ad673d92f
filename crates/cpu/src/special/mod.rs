//! Special functions in `f64`, by the approximations of the Cephes library (S. L. Moshier, Methods
//! and Programs for Mathematical Functions, 1989), which TensorFlow uses as well.
//!
//! ```
//! use std::f64::consts::PI;
//! use thalweg_cpu::special::{digamma, ndtri, polygamma};
//!
//! assert!((digamma(2.0) - digamma(1.0) - 1.0).abs() < 1e-12);
//! assert!((polygamma(1.0, 1.0) - PI * PI / 6.0).abs() < 1e-12);
//! // Half of all normal numbers are below zero.
//! assert!(ndtri(0.5).abs() < 1e-12);
//! ```

mod bessel;
mod gamma;

use std::f64::consts::PI;

pub use bessel::{i0e, i1e};
pub use gamma::{igamma, igamma_slope, igammac};

/// A polynomial, its highest coefficient first.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

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
        // Reflected: digamma(x) = digamma(1 - x) - pi / tan(pi x).
        let below = x - x.floor();
        return match below {
            0.0 => f64::NAN,
            // The tangent has a pole there.
            0.5 => digamma(1.0 - x),
            // The nearer of both neighbours keeps the digits.
            b if b > 0.5 => digamma(1.0 - x) - PI / (PI * (b - 1.0)).tan(),
            b => digamma(1.0 - x) - PI / (PI * b).tan(),
        };
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
    let (mut sum, mut a, mut b) = (q.powf(-x), q, 0.0);
    let mut n = 0;
    while n < 9 || a <= 9.0 {
        n += 1;
        a += 1.0;
        b = a.powf(-x);
        sum += b;
        if (b / sum).abs() < f64::EPSILON / 2.0 || n > 1 << 20 {
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
        if (t / sum).abs() < f64::EPSILON / 2.0 {
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

/// Below what a standard normal variable lies with probability `p`.
pub fn ndtri(p: f64) -> f64 {
    const P0: [f64; 5] = [
        -5.996_335_010_141_079e1,
        9.800_107_541_859_997e1,
        -5.667_628_574_690_703e1,
        1.393_126_093_872_795_8e1,
        -1.239_165_838_673_812_6,
    ];
    const Q0: [f64; 9] = [
        1.0,
        1.954_488_583_381_417_7,
        4.676_279_128_988_815,
        8.636_024_213_908_906e1,
        -2.254_626_878_541_193_6e2,
        2.002_602_123_800_606_6e2,
        -8.203_722_561_683_334e1,
        1.590_562_251_262_117e1,
        -1.183_316_211_213_3,
    ];
    const P1: [f64; 9] = [
        4.055_448_923_059_624,
        3.152_510_945_998_939e1,
        5.716_281_922_464_213e1,
        4.408_050_738_932_008e1,
        1.468_495_619_288_580_1e1,
        2.186_633_068_507_902_7,
        -1.402_560_791_713_545e-1,
        -3.504_246_268_278_482e-2,
        -8.574_567_851_546_854e-4,
    ];
    const Q1: [f64; 9] = [
        1.0,
        1.577_998_832_564_667_4e1,
        4.539_076_351_288_792e1,
        4.131_720_382_546_72e1,
        1.504_253_856_929_075e1,
        2.504_649_462_083_094,
        -1.421_829_228_547_877_9e-1,
        -3.808_064_076_915_783e-2,
        -9.332_594_808_954_574e-4,
    ];
    const P2: [f64; 9] = [
        3.237_748_917_769_46,
        6.915_228_890_689_842,
        3.938_810_252_924_744_4,
        1.333_034_608_158_075_4,
        2.014_853_895_491_790_8e-1,
        1.237_166_348_178_200_3e-2,
        3.015_815_535_082_354e-4,
        2.658_069_746_867_375_5e-6,
        6.239_745_391_849_833e-9,
    ];
    const Q2: [f64; 9] = [
        1.0,
        6.024_270_393_647_421,
        3.679_835_638_561_608_6,
        1.377_020_994_890_813_3,
        2.162_369_935_944_966_4e-1,
        1.342_040_060_885_431_9e-2,
        3.280_144_646_821_277_4e-4,
        2.892_478_647_453_807e-6,
        6.790_194_080_099_813e-9,
    ];
    // e^-2.
    const TAIL: f64 = 0.135_335_283_236_612_7;
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    if p == 1.0 {
        return f64::INFINITY;
    }
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    let (upper, y) = if p > 1.0 - TAIL {
        (true, 1.0 - p)
    } else {
        (false, p)
    };
    if y > TAIL {
        let y = y - 0.5;
        let square = y * y;
        let bent = square * polynomial(square, &P0) / polynomial(square, &Q0);
        return (y + y * bent) * (2.0 * PI).sqrt();
    }
    let x = (-2.0 * y.ln()).sqrt();
    let z = 1.0 / x;
    let bent = match x < 8.0 {
        true => z * polynomial(z, &P1) / polynomial(z, &Q1),
        false => z * polynomial(z, &P2) / polynomial(z, &Q2),
    };
    let x = (x - x.ln() / x) - bent;
    if upper { x } else { -x }
}
