//! Sampling of distorted boxes: random crops with bounds on their area, their shape and their share of an object
//! (`sample_distorted_bounding_box_op.cc` of TensorFlow).

use crate::{ImageError, Window};

/// Bounds on random crops, with the defaults of TensorFlow's op.
///
/// ```
/// use thalweg_image::BoxSampler;
///
/// # fn main() -> Result<(), thalweg_image::ImageError> {
/// let mut state = 1u32;
/// let mut draw = || {
///     state = state.wrapping_mul(1664525).wrapping_add(1013904223);
///     state
/// };
/// let window = BoxSampler::default().sample(375, 500, &[], &mut draw)?;
/// assert!(window.y + window.height <= 375 && window.x + window.width <= 500);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoxSampler {
    /// Least share of an object that the crop contains.
    pub min_object_covered: f32,
    /// Least and largest width divided by height.
    pub aspect_ratio: [f32; 2],
    /// Least and largest share of the image's area.
    pub area: [f32; 2],
    /// Attempts before the whole image is taken.
    pub attempts: usize,
}

impl Default for BoxSampler {
    fn default() -> BoxSampler {
        BoxSampler {
            min_object_covered: 0.1,
            aspect_ratio: [0.75, 1.33],
            area: [0.05, 1.0],
            attempts: 100,
        }
    }
}

/// A rectangle in pixels; the end is not part of it.
#[derive(Clone, Copy)]
struct Rectangle {
    y: [i64; 2],
    x: [i64; 2],
}

impl Rectangle {
    fn area(&self) -> f32 {
        ((self.x[1] - self.x[0]) * (self.y[1] - self.y[0])) as f32
    }

    fn shared(&self, other: &Rectangle) -> f32 {
        let part = |a: [i64; 2], b: [i64; 2]| (a[1].min(b[1]) - a[0].max(b[0])).max(0);
        (part(self.x, other.x) * part(self.y, other.y)) as f32
    }
}

/// Rounds to the nearest integer, halves to the even one.
fn round(x: f32) -> i64 {
    x.round_ties_even() as i64
}

/// A number of 0 to 1, exclusive, with 23 random bits.
fn unit(draw: &mut impl FnMut() -> u32) -> f32 {
    f32::from_bits(0x3f80_0000 | draw() & 0x007f_ffff) - 1.0
}

/// A number of 0 to `n`, exclusive, each as probable as the others. `n` is not 0.
fn uniform(n: i64, draw: &mut impl FnMut() -> u32) -> i64 {
    let n = n as u32;
    if n.is_power_of_two() {
        return i64::from(draw() & (n - 1));
    }
    let least = u32::MAX % n + 1;
    loop {
        let x = draw();
        if x >= least {
            return i64::from(x % n);
        }
    }
}

/// Bound on the attempts: a box that is found so rarely is none.
const MAX_ATTEMPTS: usize = 100_000;

impl BoxSampler {
    /// An error unless the bounds make sense.
    ///
    /// # Errors
    /// [`ImageError::Argument`] that names the bound.
    pub fn check(&self) -> Result<(), ImageError> {
        let fails = |text: String| Err(ImageError::Argument(text));
        let [ratios, areas] = [self.aspect_ratio, self.area];
        if self.min_object_covered.is_nan() || self.min_object_covered < 0.0 {
            return fails(format!(
                "min_object_covered is {}, but must not be negative",
                self.min_object_covered
            ));
        }
        if !ratios.iter().all(|&r| r > 0.0) {
            return fails(format!(
                "the aspect ratios are {ratios:?}, but must be positive"
            ));
        }
        if !areas.iter().all(|&a| a > 0.0 && a <= 1.0) {
            return fails(format!(
                "the areas are {areas:?}, but must be between 0 and 1"
            ));
        }
        match self.attempts {
            0 => fails("there are no attempts: allow one at least".to_owned()),
            MAX_ATTEMPTS.. => fails(format!(
                "there are {} attempts: allow less than {MAX_ATTEMPTS}",
                self.attempts
            )),
            _ => Ok(()),
        }
    }

    /// A random window of an image.
    ///
    /// `boxes` are the objects, each `[top, left, bottom, right]` in shares of the image; without any the image is one.
    /// `draw` gives random words: an attempt takes one for the ratio and up to three more, or some more where a word is
    /// rejected.
    ///
    /// # Errors
    /// [`ImageError::Argument`] for bounds that make no sense, a box that lies not between 0 and 1, or an image without
    /// pixels or with a side of more than 2^31 - 1.
    pub fn sample(
        &self,
        height: usize,
        width: usize,
        boxes: &[[f32; 4]],
        draw: &mut impl FnMut() -> u32,
    ) -> Result<Window, ImageError> {
        self.check()?;
        let side = |n: usize| i64::from(i32::try_from(n).unwrap_or(0));
        let (h, w) = (side(height), side(width));
        if h == 0 || w == 0 {
            let text = format!("no window can be drawn in an image of {height} x {width} pixels");
            return Err(ImageError::Argument(text));
        }
        if let Some(b) = boxes
            .iter()
            .find(|b| !b.iter().all(|x| (0.0..=1.0).contains(x)))
        {
            let text = format!("the box {b:?} has a coordinate that is not between 0 and 1");
            return Err(ImageError::Argument(text));
        }
        let image = Rectangle {
            y: [0, h],
            x: [0, w],
        };
        let pixels = |x: f32, n: i64| (x * n as f32) as i64;
        let mut objects: Vec<Rectangle> = boxes
            .iter()
            .map(|&[top, left, bottom, right]| Rectangle {
                y: [pixels(top, h), pixels(bottom, h)],
                x: [pixels(left, w), pixels(right, w)],
            })
            .collect();
        if objects.is_empty() {
            objects.push(image);
        }
        let [least, most] = self.aspect_ratio;
        let found = (0..self.attempts).find_map(|_| {
            let ratio = unit(draw) * (most - least) + least;
            let crop = self.attempt(h, w, ratio, draw)?;
            self.covers(&crop, &objects).then_some(crop)
        });
        let crop = found.unwrap_or(image);
        Ok(Window {
            y: crop.y[0] as usize,
            x: crop.x[0] as usize,
            height: (crop.y[1] - crop.y[0]) as usize,
            width: (crop.x[1] - crop.x[0]) as usize,
        })
    }

    /// A window with a ratio of width to height, or none if rounding leaves the bounds.
    fn attempt(
        &self,
        h: i64,
        w: i64,
        ratio: f32,
        draw: &mut impl FnMut() -> u32,
    ) -> Option<Rectangle> {
        let [least, most] = self.area.map(|share| share * w as f32 * h as f32);
        if self.area[0] > self.area[1] {
            return None;
        }
        let wide = |height: i64| round(height as f32 * ratio);
        let mut height = round((least / ratio).sqrt());
        let mut tallest = round((most / ratio).sqrt());
        if wide(tallest) > w {
            tallest = ((w as f64 + 0.5 - f64::from(1e-7f32)) / f64::from(ratio)) as i64;
            if wide(tallest) > w {
                tallest -= 1;
            }
        }
        tallest = tallest.min(h);
        height = height.min(tallest);
        if height < tallest {
            height += uniform(tallest - height + 1, draw);
        }
        let area = |height: i64| (wide(height) * height) as f32;
        if area(height) < least {
            height += 1;
        }
        if area(height) > most {
            height -= 1;
        }
        let width = wide(height);
        let fits = (least..=most).contains(&area(height));
        if !fits || width > w || height > h || width <= 0 || height <= 0 {
            return None;
        }
        // The last position is never drawn, as in TensorFlow.
        let y = if height < h {
            uniform(h - height, draw)
        } else {
            0
        };
        let x = if width < w {
            uniform(w - width, draw)
        } else {
            0
        };
        Some(Rectangle {
            y: [y, y + height],
            x: [x, x + width],
        })
    }

    /// Returns `true` if the crop has a pixel, and enough of an object.
    fn covers(&self, crop: &Rectangle, objects: &[Rectangle]) -> bool {
        let enough = |object: &Rectangle| {
            let area = object.area();
            area >= 1.0 && crop.shared(object) / area >= self.min_object_covered
        };
        crop.area() >= 1.0 && objects.iter().any(enough)
    }
}
