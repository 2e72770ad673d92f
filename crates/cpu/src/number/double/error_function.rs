//! The error function and its complement.

use super::exponential::exp;
use super::polynomial::polynomial;

/// Below this size the error function is computed, and from it on its complement.
const NEAR: f64 = 0.84375;
/// `erf(1)`, rounded to few digits.
const AT_ONE: f64 = 8.450_629_115_104_675e-1;

// The coefficients of numerators and denominators are those of fdlibm's s_erf.c.

/// A numerator and a denominator.
type Ratio = [f64; 2];

/// `(erf(x) - x) / x` for a size below [`NEAR`], of the square of `x`.
#[inline(always)]
fn near_zero(z: f64) -> Ratio {
    const TOP: [f64; 5] = [
        1.283_791_670_955_125_6e-1,
        -3.250_421_072_470_015e-1,
        -2.848_174_957_559_851e-2,
        -5.770_270_296_489_442e-3,
        -2.376_301_665_665_016_3e-5,
    ];
    const BOTTOM: [f64; 6] = [
        1.0,
        3.979_172_239_591_553_5e-1,
        6.502_224_998_876_73e-2,
        5.081_306_281_875_766e-3,
        1.324_947_380_043_216_4e-4,
        -3.960_228_278_775_368e-6,
    ];
    [polynomial(z, TOP), polynomial(z, BOTTOM)]
}

/// `erf(1 + s) - AT_ONE` for sizes up to 1.25.
#[inline(always)]
fn near_one(s: f64) -> Ratio {
    const TOP: [f64; 7] = [
        -2.362_118_560_752_659_4e-3,
        4.148_561_186_837_483_3e-1,
        -3.722_078_760_357_013e-1,
        3.183_466_199_011_617_5e-1,
        -1.108_946_942_823_966_8e-1,
        3.547_830_432_561_823_6e-2,
        -2.166_375_594_868_791e-3,
    ];
    const BOTTOM: [f64; 7] = [
        1.0,
        1.064_208_804_008_442_3e-1,
        5.403_979_177_021_71e-1,
        7.182_865_441_419_627e-2,
        1.261_712_198_087_616_4e-1,
        1.363_708_391_202_905e-2,
        1.198_449_984_679_910_7e-2,
    ];
    [polynomial(s, TOP), polynomial(s, BOTTOM)]
}

/// The exponent of the complement of a size from 1.25 on, beside the square, by the square of its inverse.
#[inline(always)]
fn far(size: f64, s: f64) -> Ratio {
    const MIDDLE_TOP: [f64; 8] = [
        -9.864_944_034_847_148e-3,
        -6.938_585_727_071_818e-1,
        -1.055_862_622_532_329_1e1,
        -6.237_533_245_032_600_6e1,
        -1.623_966_694_625_734_7e2,
        -1.846_050_929_067_110_4e2,
        -8.128_743_550_630_66e1,
        -9.814_329_344_169_145,
    ];
    const MIDDLE_BOTTOM: [f64; 9] = [
        1.0,
        1.965_127_166_743_925_7e1,
        1.376_577_541_435_190_4e2,
        4.345_658_774_752_292_3e2,
        6.453_872_717_332_679e2,
        4.290_081_400_275_678_3e2,
        1.086_350_055_417_794_4e2,
        6.570_249_770_319_282,
        -6.042_441_521_485_81e-2,
    ];
    const FAR_TOP: [f64; 7] = [
        -9.864_942_924_700_1e-3,
        -7.992_832_376_805_23e-1,
        -1.775_795_491_775_475_2e1,
        -1.606_363_848_558_219_2e2,
        -6.375_664_433_683_896e2,
        -1.025_095_131_611_077_2e3,
        -4.835_191_916_086_514e2,
    ];
    const FAR_BOTTOM: [f64; 8] = [
        1.0,
        3.033_806_074_348_246e1,
        3.257_925_129_965_739e2,
        1.536_729_586_084_437e3,
        3.199_858_219_508_595_5e3,
        2.553_050_406_433_164_4e3,
        4.745_285_412_069_553_7e2,
        -2.244_095_244_658_582e1,
    ];
    let is_middle = size < 1.0 / 0.35;
    let (middle_top, far_top) = (polynomial(s, MIDDLE_TOP), polynomial(s, FAR_TOP));
    let (middle_bottom, far_bottom) = (polynomial(s, MIDDLE_BOTTOM), polynomial(s, FAR_BOTTOM));
    [
        if is_middle { middle_top } else { far_top },
        if is_middle { middle_bottom } else { far_bottom },
    ]
}

/// The number for a size: below [`NEAR`], below 1.25, or beyond. Not `map` of an array, which is a function without the
/// instructions of its caller.
#[inline(always)]
fn of_size(size: f64, zero: f64, one: f64, far: f64) -> f64 {
    let at_least_near = if size < 1.25 { one } else { far };
    if size < NEAR { zero } else { at_least_near }
}

/// The complement for a size from [`NEAR`] on, and `(erf(x) - x) / x` for one below: of each pair of polynomials one is
/// divided, as divisions take longest.
#[inline(always)]
fn parts(x: f64) -> (f64, f64) {
    let size = x.abs();
    let bounded = if size < 28.0 { size } else { 28.0 };
    let inverse = 1.0 / bounded;
    let (zero, one) = (near_zero(x * x), near_one(size - 1.0));
    let beyond = far(bounded, inverse * inverse);
    let top = of_size(size, zero[0], one[0], beyond[0]);
    let bottom = of_size(size, zero[1], one[1], beyond[1]);
    let ratio = top / bottom;
    // The square of the upper digits is exact.
    let upper = f64::from_bits(bounded.to_bits() & 0xffff_ffff_0000_0000);
    let tail = (upper - bounded) * (upper + bounded) + ratio;
    let far = exp(-upper * upper - 0.5625) * exp(tail) * inverse;
    let complement = if size < 1.25 {
        1.0 - AT_ONE - ratio
    } else {
        far
    };
    (complement, ratio)
}

/// The error function.
#[inline(always)]
pub fn erf(x: f64) -> f64 {
    let (complement, ratio) = parts(x);
    let (near, far) = (x + x * ratio, (1.0 - complement).copysign(x));
    let found = if x.abs() < NEAR { near } else { far };
    if x.is_nan() { x } else { found }
}

/// 1 less the error function, without loss of digits.
#[inline(always)]
pub fn erfc(x: f64) -> f64 {
    let (complement, y) = parts(x);
    // From a quarter on, the result is below 3/4, and 1 - x would lose a digit.
    let near = if x < 0.25 {
        1.0 - (x + x * y)
    } else {
        0.5 - (x - 0.5 + x * y)
    };
    let far = if x < 0.0 {
        2.0 - complement
    } else {
        complement
    };
    let found = if x.abs() < NEAR { near } else { far };
    if x.is_nan() { x } else { found }
}

/// As [`erfc`], with a relative error of 1.2e-7: exact enough for `f32`, in a third of the time. The coefficients are those
/// of Numerical Recipes.
#[inline(always)]
pub fn erfc_for_single(x: f64) -> f64 {
    let size = x.abs();
    let t = 1.0 / (1.0 + 0.5 * size);
    let series = polynomial(
        t,
        [
            -1.265_512_23,
            1.000_023_68,
            0.374_091_96,
            0.096_784_18,
            -0.186_288_06,
            0.278_868_07,
            -1.135_203_98,
            1.488_515_87,
            -0.822_152_23,
            0.170_872_77,
        ],
    );
    let found = t * exp(series - size * size);
    if x < 0.0 { 2.0 - found } else { found }
}
