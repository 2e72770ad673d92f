//! The quantile function of the normal distribution, and the inverse of the error function, which is one. Straight lines of
//! arithmetic, which are vectorised in loops.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::number::double::ln;

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

/// A polynomial, its highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    let (mut sum, mut i) = (0.0, 0);
    while i < N {
        sum = sum * x + coefficients[i];
        i += 1;
    }
    sum
}

/// The quantile of a probability: given its difference from one half, and its distance from the nearer one of 0 and 1.
#[inline(always)]
fn quantile(centered: f64, tail: f64) -> f64 {
    // e^-2.
    const TAIL: f64 = 0.135_335_283_236_612_7;
    let square = centered * centered;
    let bent = square * polynomial(square, &P0) / polynomial(square, &Q0);
    let near = (centered + centered * bent) * (2.0 * PI).sqrt();
    let x = (-2.0 * ln(tail)).sqrt();
    let z = 1.0 / x;
    let is_middle = x < 8.0;
    let (middle_top, far_top) = (polynomial(z, &P1), polynomial(z, &P2));
    let (middle_bottom, far_bottom) = (polynomial(z, &Q1), polynomial(z, &Q2));
    let top = if is_middle { middle_top } else { far_top };
    let bottom = if is_middle { middle_bottom } else { far_bottom };
    let far = (x - ln(x) / x) - z * top / bottom;
    let far = if tail == 0.0 { f64::INFINITY } else { far };
    let far = if centered < 0.0 { -far } else { far };
    let found = if tail > TAIL { near } else { far };
    if tail >= 0.0 { found } else { f64::NAN }
}

/// Returns the number below which a standard normal variable lies with probability `p`.
#[inline(always)]
pub fn ndtri(p: f64) -> f64 {
    let upper = 1.0 - p;
    let tail = if p < 0.5 { p } else { upper };
    quantile(p - 0.5, tail)
}

/// The inverse of the error function.
#[inline(always)]
pub fn erfinv(x: f64) -> f64 {
    // A small x has all of its digits in its half, and one near 1 in its distance.
    quantile(0.5 * x, 0.5 - 0.5 * x.abs()) * FRAC_1_SQRT_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_invert_the_error_function() {
        for x in [1e-300f64, 1e-20, 1e-9, 0.003, 0.4, 0.7, 1.3, 2.2, 3.1] {
            let p = libm::erf(x);
            // The error function has few digits of a large x.
            let slack = 1e-15 + 1e-16 / (-x * x).exp();
            for (x, p) in [(x, p), (-x, -p)] {
                let found = erfinv(p);
                assert!((found - x).abs() <= slack * x.abs(), "{x}: {found}");
            }
            let below = libm::erfc(x) / 2.0;
            let found = ndtri(below);
            let wanted = -x * 2f64.sqrt();
            let slack = 1e-15 + 1e-16 / x;
            assert!(
                (found - wanted).abs() <= slack * wanted.abs(),
                "{x}: {found}"
            );
        }
        // The far tail, with more digits than a probability near 1 has.
        assert!((ndtri(1e-300) + 37.047_096_299_361_2).abs() < 1e-12);
    }

    #[test]
    fn quantiles_of_the_ends_are_infinite_and_beyond_them_nan() {
        let inf = f64::INFINITY;
        assert_eq!((ndtri(0.0), ndtri(1.0), ndtri(0.5)), (-inf, inf, 0.0));
        assert_eq!((erfinv(-1.0), erfinv(1.0), erfinv(0.0)), (-inf, inf, 0.0));
        for beyond in [-1e-9, 1.0 + 1e-9, inf, -inf, f64::NAN] {
            assert!(ndtri(beyond).is_nan(), "{beyond}");
            assert!(erfinv(2.0 * beyond - 1.0).is_nan(), "{beyond}");
        }
    }
}
