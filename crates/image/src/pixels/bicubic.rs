//! Weights of bicubic interpolation, from TensorFlow's table of 1024 steps a pixel (`resize_bicubic_op.cc`).

use super::sampling::Sampling;

const STEPS: i32 = 1 << 10;

/// Four pixels and their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cubic {
    /// Indices of pixels; some are equal at an edge.
    pub pixels: [usize; 4],
    /// A weight for each.
    pub weights: [f32; 4],
}

/// Weights of the pixels at a distance of `step` and of one more, in steps, for a parameter of the kernel.
fn coefficients(step: i32, a: f64) -> [f32; 2] {
    let x = f64::from((f64::from(step) / f64::from(STEPS)) as f32);
    let near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let x = f64::from((x + 1.0) as f32);
    let far = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    [near as f32, far as f32]
}

/// The pixels of a line of `from` pixels for pixel `i` of a line of `to` pixels.
///
/// With [`Sampling::HalfPixel`] the kernel is Keys's, and pixels beyond an edge have no weight.
pub fn cubic(sampling: Sampling, i: usize, from: usize, to: usize) -> Cubic {
    let at = sampling.position(i, sampling.scale(from, to));
    let floor = at.floor();
    let step = ((at - floor) * STEPS as f32).round_ties_even() as i32;
    let keys = sampling == Sampling::HalfPixel;
    let a = if keys { -0.5 } else { -0.75 };
    let ([w1, w0], [w2, w3]) = (coefficients(step, a), coefficients(STEPS - step, a));
    let mut weights = [w0, w1, w2, w3];
    let places = [-1, 0, 1, 2].map(|offset| floor as i64 + offset);
    let last = from.saturating_sub(1) as i64;
    let pixels = places.map(|place| place.clamp(0, last) as usize);
    if keys {
        for (weight, place) in weights.iter_mut().zip(places) {
            if !(0..=last).contains(&place) {
                *weight = 0.0;
            }
        }
        let [w0, w1, w2, w3] = weights;
        let sum = w0 + w1 + w2 + w3;
        if sum.abs() >= 1000.0 * f32::MIN_POSITIVE {
            let factor = 1.0 / sum;
            weights = weights.map(|w| w * factor);
        }
    }
    Cubic { pixels, weights }
}
