//! Training images in memory, as those of CIFAR.

use super::draws::Draws;
use super::normalize::Normalize;
use super::window::{Cut, cut};
use crate::error::check_len;
use crate::{ImageError, Size};

/// Preprocessing of small images: a border of zeros, a random crop of the image's size, a flip, normalization.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cifar {
    /// Pixels of the border on each side.
    pub border: usize,
    /// Normalization, of the border too.
    pub normalize: Normalize,
}

impl Default for Cifar {
    fn default() -> Cifar {
        Cifar {
            border: 4,
            normalize: Normalize::default(),
        }
    }
}

impl Cifar {
    /// Preprocesses an RGB image for training.
    ///
    /// # Errors
    /// [`ImageError::Buffer`] if a slice is not as long as the image.
    pub fn train(
        &self,
        image: &[u8],
        size: Size,
        draws: &mut Draws,
        out: &mut [f32],
    ) -> Result<(), ImageError> {
        let mut start = || draws.below(2 * self.border + 1) as isize - self.border as isize;
        let at = [start(), start()];
        let mirror = draws.coin();
        self.cut(image, size, at, mirror, out)
    }

    /// Preprocesses an RGB image for evaluation: normalization alone.
    ///
    /// # Errors
    /// [`ImageError::Buffer`] if a slice is not as long as the image.
    pub fn evaluate(&self, image: &[u8], size: Size, out: &mut [f32]) -> Result<(), ImageError> {
        self.cut(image, size, [0, 0], false, out)
    }

    fn cut(
        &self,
        image: &[u8],
        size: Size,
        at: [isize; 2],
        mirror: bool,
        out: &mut [f32],
    ) -> Result<(), ImageError> {
        check_len(size, image.len())?;
        check_len(size, out.len())?;
        let window = Cut {
            at,
            width: size.width,
            mirror,
        };
        cut(image, size, window, out, |x, _, _| x);
        self.normalize.apply(out);
        Ok(())
    }
}
