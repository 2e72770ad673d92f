//! Random colours of training images.

use super::draws::Draws;
use crate::pixels::{
    adjust_brightness, adjust_contrast, adjust_hsv_in_yiq, adjust_hue, adjust_saturation,
};
use crate::{ImageError, Size};

/// Random changes of brightness, saturation, hue and contrast, as tf_cnn_benchmarks makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorDistortion {
    /// Hue and saturation in HSV.
    Hsv,
    /// Hue and saturation in YIQ.
    Yiq,
}

const BRIGHTNESS: f32 = 32.0 / 255.0;
const FACTORS: [f32; 2] = [0.5, 1.5];
/// Part of the colour circle in HSV, and of half a circle in YIQ.
const HUE: f32 = 0.2;

impl ColorDistortion {
    /// Changes the colours of an image of 0 to 255. Contrast comes last at even positions in the batch, and before
    /// saturation and hue at odd ones.
    pub(super) fn apply(
        self,
        image: &mut [f32],
        size: Size,
        position: usize,
        draws: &mut Draws,
    ) -> Result<(), ImageError> {
        let factor = |draws: &mut Draws| draws.uniform(FACTORS[0], FACTORS[1]);
        image.iter_mut().for_each(|x| *x *= 1.0 / 255.0);
        adjust_brightness(image, draws.uniform(-BRIGHTNESS, BRIGHTNESS));
        let contrast_first = position % 2 == 1;
        if contrast_first {
            adjust_contrast(image, size, factor(draws))?;
        }
        let saturation = factor(draws);
        let hue = draws.uniform(-HUE, HUE);
        match self {
            ColorDistortion::Hsv => {
                adjust_saturation(image, saturation);
                adjust_hue(image, hue);
            }
            ColorDistortion::Yiq => {
                adjust_hsv_in_yiq(image, hue * std::f32::consts::PI, saturation);
            }
        }
        if !contrast_first {
            adjust_contrast(image, size, factor(draws))?;
        }
        image
            .iter_mut()
            .for_each(|x| *x = x.clamp(0.0, 1.0) * 255.0);
        Ok(())
    }
}
