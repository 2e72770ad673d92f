//! Mapping of positions in a resized image to positions in the original one.
//!
//! Positions are computed in `f32` as TensorFlow does: the selected pixel depends on their last bit.

/// Rule by which positions of the two images correspond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// The position is multiplied by the ratio of the sizes: TensorFlow 1's default.
    #[default]
    Corner,
    /// The centres of the corner pixels correspond (`align_corners`).
    AlignCorners,
    /// The centres of pixels lie at halves (`half_pixel_centers`).
    HalfPixel,
}

impl Sampling {
    /// Pixels of the original image for each pixel of the resized one.
    pub(super) fn scale(self, from: usize, to: usize) -> f32 {
        match self == Sampling::AlignCorners && to > 1 && from > 1 {
            true => (from - 1) as f32 / (to - 1) as f32,
            false => from as f32 / to as f32,
        }
    }

    /// Position in the original image of pixel `i`.
    pub(super) fn position(self, i: usize, scale: f32) -> f32 {
        match self {
            Sampling::HalfPixel => (i as f32 + 0.5) * scale - 0.5,
            _ => i as f32 * scale,
        }
    }

    /// The pixel of the original image that is nearest to pixel `i`.
    pub(super) fn nearest(self, i: usize, scale: f32, from: usize) -> usize {
        let at = match self {
            Sampling::HalfPixel => ((i as f32 + 0.5) * scale).floor(),
            Sampling::AlignCorners => (i as f32 * scale).round(),
            Sampling::Corner => (i as f32 * scale).floor(),
        };
        (at as usize).min(from.saturating_sub(1))
    }
}
