//! Caffe's transformation of images in memory.

use super::draws::Draws;
use super::window::{Cut, cut};
use crate::error::{check_len, check_window};
use crate::{ImageError, Size, Window};

/// The mean that is subtracted from an image.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Mean {
    /// Nothing.
    #[default]
    Zero,
    /// A number for each channel: 104, 117 and 123 for models on ImageNet, whose channels are blue, green and red.
    Channels(Vec<f32>),
    /// An image of the size of those that come in, in the same order of pixels.
    Image(Vec<f32>),
}

/// Caffe's transformation: crop, mirror, minus the mean, times a factor.
///
/// Caffe's data are in BGR; see [`crate::pixels::planes_to_pixels`] for the order of the channels.
#[derive(Clone, Debug, PartialEq)]
pub struct Caffe {
    /// Height and width of the crop; without it the image keeps its size.
    pub crop: Option<usize>,
    /// Every second training image is mirrored.
    pub mirror: bool,
    /// The mean.
    pub mean: Mean,
    /// The factor.
    pub scale: f32,
}

impl Default for Caffe {
    fn default() -> Caffe {
        Caffe {
            crop: None,
            mirror: false,
            mean: Mean::Zero,
            scale: 1.0,
        }
    }
}

impl Caffe {
    /// Transforms an image for training: the crop is at a random place.
    ///
    /// # Errors
    /// [`ImageError`] for a crop that is larger than the image, a mean of another size, or a buffer of another length.
    pub fn train(
        &self,
        image: &[u8],
        size: Size,
        draws: &mut Draws,
        out: &mut [f32],
    ) -> Result<(), ImageError> {
        let mirror = self.mirror && draws.coin();
        self.run(image, size, mirror, |room| draws.below(room + 1), out)
    }

    /// Transforms an image for a test: the crop is in the centre.
    ///
    /// # Errors
    /// Those of [`Caffe::train`].
    pub fn test(&self, image: &[u8], size: Size, out: &mut [f32]) -> Result<(), ImageError> {
        self.run(image, size, false, |room| room / 2, out)
    }

    /// `start` chooses the first line or column, given how many there are to leave out.
    fn run(
        &self,
        image: &[u8],
        size: Size,
        mirror: bool,
        mut start: impl FnMut(usize) -> usize,
        out: &mut [f32],
    ) -> Result<(), ImageError> {
        check_len(size, image.len())?;
        let [height, width] = self.crop.map_or([size.height, size.width], |n| [n, n]);
        let window = Window {
            y: start(size.height.saturating_sub(height)),
            x: start(size.width.saturating_sub(width)),
            height,
            width,
        };
        check_window(window, size)?;
        check_len(Size::new(height, width, size.channels), out.len())?;
        let window = Cut {
            at: [window.y as isize, window.x as isize],
            width,
            mirror,
        };
        let scale = self.scale;
        match &self.mean {
            Mean::Zero => cut(image, size, window, out, |x, _, _| x * scale),
            Mean::Channels(means) => {
                check_len(Size::new(1, 1, size.channels), means.len())?;
                cut(image, size, window, out, |x, _, k| (x - means[k]) * scale);
            }
            Mean::Image(mean) => {
                check_len(size, mean.len())?;
                let of = |at: Option<usize>| at.map_or(0.0, |at| mean[at]);
                cut(image, size, window, out, |x, at, _| (x - of(at)) * scale);
            }
        }
        Ok(())
    }
}
