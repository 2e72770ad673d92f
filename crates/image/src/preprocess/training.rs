//! Training images from files.

use super::colors::ColorDistortion;
use super::draws::Draws;
use super::method::ResizeMethod;
use super::normalize::Normalize;
use super::workspace::Workspace;
use crate::pixels::flip_left_right;
use crate::{BoxSampler, ImageError, Size, size_of};

/// Preprocessing of a training image: a random window, decoded alone where the decoder can, flipped at random,
/// resized, with other colours, normalized.
///
/// ```
/// use thalweg_image::preprocess::{Draws, Training, Workspace};
/// use thalweg_image::{Image, Size, encode};
///
/// # fn main() -> Result<(), thalweg_image::ImageError> {
/// let photo = Image::new(Size::new(64, 80, 3), vec![100; 64 * 80 * 3])?;
/// let file = encode::jpeg(&photo, &Default::default())?;
/// let training = Training::new(32, 32);
/// let mut workspace = Workspace::default();
/// let mut batch = vec![0.0; 8 * 32 * 32 * 3];
/// for (i, out) in batch.chunks_exact_mut(32 * 32 * 3).enumerate() {
///     let mut draws = Draws::new(42, i as u64);
///     training.run(&file, &[], i, &mut draws, &mut workspace, out)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// Lines of the result.
    pub height: usize,
    /// Columns of the result.
    pub width: usize,
    /// The window.
    pub sampler: BoxSampler,
    /// Every second image is mirrored.
    pub flip: bool,
    /// Method of resizing.
    pub method: ResizeMethod,
    /// Other colours.
    pub colors: Option<ColorDistortion>,
    /// Normalization.
    pub normalize: Normalize,
}

impl Training {
    /// The preprocessing of tf_cnn_benchmarks without other colours.
    pub fn new(height: usize, width: usize) -> Training {
        Training {
            height,
            width,
            sampler: BoxSampler::default(),
            flip: true,
            method: ResizeMethod::default(),
            colors: None,
            normalize: Normalize::default(),
        }
    }

    /// Preprocesses a file into `out`, `height * width * 3` numbers.
    ///
    /// `boxes` are the objects of the image, each `[top, left, bottom, right]` in shares of its size. `position` is that
    /// in the batch.
    ///
    /// # Errors
    /// [`ImageError`] for a file that cannot be decoded, boxes out of range, or a buffer of another length.
    pub fn run(
        &self,
        file: &[u8],
        boxes: &[[f32; 4]],
        position: usize,
        draws: &mut Draws,
        workspace: &mut Workspace,
        out: &mut [f32],
    ) -> Result<(), ImageError> {
        let whole = size_of(file)?;
        let mut word = || draws.word();
        let window = self
            .sampler
            .sample(whole.height, whole.width, boxes, &mut word)?;
        let pixels = &mut workspace.pixels;
        let size = workspace.decoder.decode_window(file, window, 3, pixels)?;
        if self.flip && draws.coin() {
            flip_left_right(pixels, size)?;
        }
        let to = [self.height, self.width];
        self.method.at(position).run(pixels, size, to, out)?;
        if let Some(colors) = self.colors {
            colors.apply(out, Size::new(self.height, self.width, 3), position, draws)?;
        }
        self.normalize.apply(out);
        Ok(())
    }
}
