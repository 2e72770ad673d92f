//! Colours of RGB images in `f32`.

use crate::error::check_len;
use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};

use crate::{ImageError, Size};

/// A number of a colour.
pub trait Channel:
    Copy
    + PartialOrd
    + From<f32>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// The larger number, or the one that is a number.
    fn larger(self, other: Self) -> Self;
    /// The smaller number, or the one that is a number.
    fn smaller(self, other: Self) -> Self;
}

impl Channel for f32 {
    fn larger(self, other: f32) -> f32 {
        self.max(other)
    }

    fn smaller(self, other: f32) -> f32 {
        self.min(other)
    }
}

impl Channel for f64 {
    fn larger(self, other: f64) -> f64 {
        self.max(other)
    }

    fn smaller(self, other: f64) -> f64 {
        self.min(other)
    }
}

/// Hue, saturation and value of a colour, each from 0 to 1 for colours from 0 to 1 (`RGBToHSV`).
pub fn rgb_to_hsv<T: Channel>([r, g, b]: [T; 3]) -> [T; 3] {
    let (zero, one, six) = (T::from(0.0), T::from(1.0), T::from(6.0));
    let value = r.larger(g).larger(b);
    let range = value - r.smaller(g).smaller(b);
    let saturation = if value > zero { range / value } else { zero };
    let norm = (one / range) * (one / six);
    let mut hue = match () {
        () if r == value => norm * (g - b),
        () if g == value => norm * (b - r) + T::from(2.0) / six,
        () => norm * (r - g) + T::from(4.0) / six,
    };
    if range.partial_cmp(&zero) != Some(Ordering::Greater) {
        hue = zero;
    }
    if hue < zero {
        hue = hue + one;
    }
    [hue, saturation, value]
}

/// The colour of a hue, a saturation and a value (`HSVToRGB`).
pub fn hsv_to_rgb<T: Channel>([hue, saturation, value]: [T; 3]) -> [T; 3] {
    let (zero, one, two) = (T::from(0.0), T::from(1.0), T::from(2.0));
    let h = hue * T::from(6.0);
    let far = |from: f32| (h - T::from(from)).larger(T::from(from) - h);
    let shares = [far(3.0) - one, two - far(2.0), two - far(4.0)];
    shares.map(|share| ((one - saturation) + saturation * share.larger(zero).smaller(one)) * value)
}

/// Brings a number into the range from 0 to `period` by additions, as TensorFlow does, or by a division if that takes
/// many.
fn wrap(mut x: f32, period: f32) -> f32 {
    const MANY: f32 = 64.0;
    if x.is_nan() || x.abs() > MANY * period {
        return x.rem_euclid(period);
    }
    while x < 0.0 {
        x += period;
    }
    while x >= period {
        x -= period;
    }
    x
}

/// A colour whose hue is shifted by `delta`, a part of the circle (`AdjustHue`).
pub fn shift_hue([r, g, b]: [f32; 3], delta: f32) -> [f32; 3] {
    // The sector of the colour circle, and the largest, middle and smallest channel.
    let (sector, max, mid, min) = match (r < g, b < r.min(g), b > r.max(g)) {
        (true, true, _) => (1, g, r, b),
        (true, _, true) => (3, b, g, r),
        (true, _, _) => (2, g, b, r),
        (false, true, _) => (0, r, g, b),
        (false, _, true) => (4, b, r, g),
        (false, _, _) => (5, r, b, g),
    };
    // Channels rise in even sectors and fall in odd ones.
    let turned = |sector: i32, x: f32| if sector & 1 == 0 { x } else { 1.0 - x };
    let hue = match max == min {
        true => 0.0,
        false => sector as f32 + turned(sector, (mid - min) / (max - min)),
    };
    let hue = wrap(hue + delta * 6.0, 6.0);
    let sector = hue as i32;
    let mid = min + turned(sector, hue - sector as f32) * (max - min);
    match sector {
        0 => [max, mid, min],
        1 => [mid, max, min],
        2 => [min, max, mid],
        3 => [min, mid, max],
        4 => [mid, min, max],
        _ => [max, min, mid],
    }
}

/// A colour whose saturation is multiplied by `scale` and limited to 1 (`AdjustSaturation`).
pub fn scale_saturation([r, g, b]: [f32; 3], scale: f32) -> [f32; 3] {
    let value = r.max(g.max(b));
    let range = value - r.min(g.min(b));
    let saturation = if value > 0.0 { range / value } else { 0.0 };
    let norm = 1.0 / (6.0 * range);
    let mut hue = match () {
        () if r == value => norm * (g - b),
        // The sums are rounded once, because the constants are f64.
        () if g == value => (f64::from(norm * (b - r)) + 2.0 / 6.0) as f32,
        () => (f64::from(norm * (r - g)) + 4.0 / 6.0) as f32,
    };
    if range <= 0.0 {
        hue = 0.0;
    }
    if hue < 0.0 {
        hue += 1.0;
    }
    let saturation = (saturation * scale).clamp(0.0, 1.0);
    let chroma = saturation * value;
    let least = value - chroma;
    let h = hue * 6.0;
    let x = chroma * (1.0 - (wrap(h, 2.0) - 1.0).abs());
    let rgb = match h as i32 {
        0 => [chroma, x, 0.0],
        1 => [x, chroma, 0.0],
        2 => [0.0, chroma, x],
        3 => [0.0, x, chroma],
        4 => [x, 0.0, chroma],
        5 => [chroma, 0.0, x],
        _ => [0.0; 3],
    };
    rgb.map(|c| c + least)
}

/// Shifts the hue of each colour. See [`shift_hue`].
pub fn adjust_hue(pixels: &mut [f32], delta: f32) {
    let (colors, _) = pixels.as_chunks_mut::<3>();
    colors.iter_mut().for_each(|c| *c = shift_hue(*c, delta));
}

/// Multiplies the saturation of each colour. See [`scale_saturation`].
pub fn adjust_saturation(pixels: &mut [f32], scale: f32) {
    let (colors, _) = pixels.as_chunks_mut::<3>();
    colors
        .iter_mut()
        .for_each(|c| *c = scale_saturation(*c, scale));
}

/// Rotates the hue by an angle and multiplies the saturation of each colour, in YIQ (`random_hsv_in_yiq`).
pub fn adjust_hsv_in_yiq(pixels: &mut [f32], angle: f32, scale: f32) {
    type Matrix = [[f32; 3]; 3];
    const TO_YIQ: Matrix = [
        [0.299, 0.587, 0.114],
        [0.596, -0.274, -0.322],
        [0.211, -0.523, 0.312],
    ];
    const FROM_YIQ: Matrix = [
        [1.0, 0.956_170_7, 0.621_432_6],
        [1.0, -0.272_688_6, -0.646_813_2],
        [1.0, -1.103_744, 1.700_623_1],
    ];
    let product = |a: Matrix, b: Matrix| -> Matrix {
        std::array::from_fn(|i| {
            std::array::from_fn(|j| a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j])
        })
    };
    let (u, w) = (scale * angle.cos(), scale * angle.sin());
    let turn = [[1.0, 0.0, 0.0], [0.0, u, -w], [0.0, w, u]];
    let matrix = product(product(FROM_YIQ, turn), TO_YIQ);
    let (colors, _) = pixels.as_chunks_mut::<3>();
    for color in colors {
        let [r, g, b] = *color;
        *color = matrix.map(|row| row[0] * r + row[1] * g + row[2] * b);
    }
}

/// Moves each number away from the mean of its channel by a factor (`AdjustContrastv2`).
///
/// # Errors
/// [`ImageError::Buffer`] if the slice is not as long as the image.
pub fn adjust_contrast(image: &mut [f32], size: Size, factor: f32) -> Result<(), ImageError> {
    check_len(size, image.len())?;
    if image.is_empty() {
        return Ok(());
    }
    let (pixels, channels) = (size.height * size.width, size.channels);
    // Folds the image in halves, as TensorFlow does: the last bit depends on the order of the sum.
    let mut sums = image.to_vec();
    let mut rest = pixels;
    while rest > 1 {
        let right = rest / 2;
        let left = rest - right;
        let (low, high) = sums.split_at_mut(left * channels);
        for (sum, &x) in low.iter_mut().zip(&high[..right * channels]) {
            *sum += x;
        }
        rest = left;
    }
    let scale = 1.0 / pixels as f32;
    let means: Vec<f32> = sums[..channels].iter().map(|sum| sum * scale).collect();
    for pixel in image.chunks_exact_mut(channels) {
        for (x, &mean) in pixel.iter_mut().zip(&means) {
            *x = mean + factor * (*x - mean);
        }
    }
    Ok(())
}

/// Adds a number to each channel of each pixel.
pub fn adjust_brightness(pixels: &mut [f32], delta: f32) {
    pixels.iter_mut().for_each(|x| *x += delta);
}
