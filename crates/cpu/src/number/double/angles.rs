//! Sine, cosine, tangent, and their inverses.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

use super::polynomial::{ROUND, polynomial};

/// The largest angle, in radians, that [`sin`], [`cos`] and [`tan`] take: beyond it, digits are lost.
pub const MAX_ANGLE: f64 = 1_000_000.0;

/// The sine and the cosine of the rest of an angle, which is at most a quarter of pi, and the number of quarter turns
/// before it. The parts of pi / 2, and the coefficients, are those of fdlibm.
#[inline(always)]
fn quarter_turns(x: f64) -> (f64, f64, u64) {
    let shifted = x * FRAC_2_PI + ROUND;
    let n = shifted - ROUND;
    let r = x - n * 1.570_796_326_734_125_6;
    let r = (r - n * 6.077_100_506_303_966e-11) - n * 2.022_266_248_795_950_6e-21;
    let z = r * r;
    let sine = polynomial(
        z,
        [
            -1.666_666_666_666_663_2e-1,
            8.333_333_333_322_49e-3,
            -1.984_126_982_985_795e-4,
            2.755_731_370_707_006_8e-6,
            -2.505_076_025_340_686_3e-8,
            1.589_690_995_211_55e-10,
        ],
    );
    let cosine = polynomial(
        z,
        [
            4.166_666_666_666_66e-2,
            -1.388_888_888_887_411e-3,
            2.480_158_728_947_673e-5,
            -2.755_731_435_139_066_3e-7,
            2.087_572_321_298_175e-9,
            -1.135_964_755_778_819_5e-11,
        ],
    );
    let half = 0.5 * z;
    (
        r + r * (z * sine),
        1.0 - (half - z * z * cosine),
        shifted.to_bits(),
    )
}

/// This with the other sign if bit 1 of `n` is set.
#[inline(always)]
fn signed(x: f64, n: u64) -> f64 {
    f64::from_bits(x.to_bits() ^ ((n & 2) << 62))
}

/// The sine of an angle of at most [`MAX_ANGLE`].
#[inline(always)]
pub fn sin(x: f64) -> f64 {
    let (sine, cosine, n) = quarter_turns(x);
    let found = signed(if n & 1 == 0 { sine } else { cosine }, n);
    // The sign of zero.
    if x == 0.0 { x } else { found }
}

/// The cosine of an angle of at most [`MAX_ANGLE`].
#[inline(always)]
pub fn cos(x: f64) -> f64 {
    let (sine, cosine, n) = quarter_turns(x);
    signed(if n & 1 == 0 { cosine } else { sine }, n.wrapping_add(1))
}

/// The tangent of an angle of at most [`MAX_ANGLE`].
#[inline(always)]
pub fn tan(x: f64) -> f64 {
    let (sine, cosine, n) = quarter_turns(x);
    let even = n & 1 == 0;
    let (top, bottom) = (
        if even { sine } else { -cosine },
        if even { cosine } else { sine },
    );
    if x == 0.0 { x } else { top / bottom }
}

/// The inverse tangent of a number that is not negative. Ranges and coefficients are those of Cephes' `atan.c`.
#[inline(always)]
fn atan_of_positive(x: f64) -> f64 {
    const TAN_3_PI_BY_8: f64 = 2.414_213_562_373_095;
    const PI_BY_2_LOW: f64 = 6.123_233_995_736_766e-17;
    let (far, middle) = (x > TAN_3_PI_BY_8, x > 0.66);
    let top = if far {
        -1.0
    } else if middle {
        x - 1.0
    } else {
        x
    };
    let bottom = if far {
        x
    } else if middle {
        x + 1.0
    } else {
        1.0
    };
    let start = if far {
        FRAC_PI_2
    } else if middle {
        FRAC_PI_4
    } else {
        0.0
    };
    let low = if far {
        PI_BY_2_LOW
    } else if middle {
        0.5 * PI_BY_2_LOW
    } else {
        0.0
    };
    let y = top / bottom;
    let z = y * y;
    let above = polynomial(
        z,
        [
            -6.485_021_904_942_025e1,
            -1.228_866_684_490_136_1e2,
            -7.500_855_792_314_705e1,
            -1.615_753_718_733_365_2e1,
            -8.750_608_600_031_904e-1,
        ],
    );
    let below = polynomial(
        z,
        [
            1.945_506_571_482_614e2,
            4.853_903_996_359_137e2,
            4.328_810_604_912_902_7e2,
            1.650_270_098_316_988_5e2,
            2.485_846_490_142_306_2e1,
            1.0,
        ],
    );
    start + (y + (y * (z * above / below) + low))
}

/// The inverse tangent.
#[inline(always)]
pub fn atan(x: f64) -> f64 {
    atan_of_positive(x.abs()).copysign(x)
}

/// The angle of the point `(x, y)`.
#[inline(always)]
pub fn atan2(y: f64, x: f64) -> f64 {
    let (height, width) = (y.abs(), x.abs());
    let steep = height > width;
    let (small, large) = if steep {
        (width, height)
    } else {
        (height, width)
    };
    let ratio = small / large;
    // Both are zero, or infinite.
    let ratio = if large == 0.0 { 0.0 } else { ratio };
    let ratio = if small == f64::INFINITY { 1.0 } else { ratio };
    let angle = atan_of_positive(ratio);
    let angle = if steep { FRAC_PI_2 - angle } else { angle };
    let angle = if x.is_sign_negative() {
        PI - angle
    } else {
        angle
    };
    let found = angle.copysign(y);
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else {
        found
    }
}

/// The inverse sine.
#[inline(always)]
pub fn asin(x: f64) -> f64 {
    let rest = ((1.0 - x) * (1.0 + x)).sqrt();
    let found = 2.0 * atan_of_positive(x.abs() / (1.0 + rest));
    found.copysign(x)
}

/// The inverse cosine.
#[inline(always)]
pub fn acos(x: f64) -> f64 {
    2.0 * atan_of_positive(((1.0 - x) / (1.0 + x)).sqrt())
}
