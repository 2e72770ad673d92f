//! Evaluation images from files.

use super::method::ResizeMethod;
use super::normalize::Normalize;
use super::workspace::Workspace;
use crate::{ImageError, Size, Window};

/// Preprocessing of an evaluation image: the centre of the image that is resized to 1.145 times the size of the net,
/// normalized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Lines of the result.
    pub height: usize,
    /// Columns of the result.
    pub width: usize,
    /// Method of resizing.
    pub method: ResizeMethod,
    /// Normalization.
    pub normalize: Normalize,
}

/// Size of the resized image to that of the net.
const MARGIN: f32 = 1.145;

impl Evaluation {
    /// The preprocessing of tf_cnn_benchmarks.
    pub fn new(height: usize, width: usize) -> Evaluation {
        Evaluation {
            height,
            width,
            method: ResizeMethod::default(),
            normalize: Normalize::default(),
        }
    }

    /// Preprocesses a file into `out`, `height * width * 3` numbers. `position` is that in the batch.
    ///
    /// # Errors
    /// [`ImageError`] for a file that cannot be decoded, or a buffer of another length.
    pub fn run(
        &self,
        file: &[u8],
        position: usize,
        workspace: &mut Workspace,
        out: &mut [f32],
    ) -> Result<(), ImageError> {
        let size = workspace.decoder.decode(file, 3, &mut workspace.pixels)?;
        let to = self.resized(size);
        // The pixels outside of the centre are not computed.
        let window = Window {
            y: to[0].saturating_sub(self.height) / 2,
            x: to[1].saturating_sub(self.width) / 2,
            height: self.height,
            width: self.width,
        };
        let resize = self.method.at(position);
        resize.run_window(&workspace.pixels, size, to, window, out)?;
        self.normalize.apply(out);
        Ok(())
    }

    /// Height and width of the resized image, computed in `f32` as TensorFlow does.
    fn resized(&self, size: Size) -> [usize; 2] {
        let (height, width) = (size.height as f32, size.width as f32);
        let ratio = (self.height as f32 / height).max(self.width as f32 / width);
        [height, width].map(|side| (side * ratio * MARGIN) as usize)
    }
}
