//! Images of 8 bits a channel.

use crate::error::check_len;
use crate::{ImageError, Size};

/// An image of 8 bits a channel: `height * width * channels` bytes, line by line, the channels of a pixel together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Lines of pixels.
    pub height: usize,
    /// Pixels of a line.
    pub width: usize,
    /// 1 is grey, 2 grey with alpha, 3 RGB, 4 RGB with alpha.
    pub channels: usize,
    /// The bytes.
    pub pixels: Vec<u8>,
}

impl Image {
    /// An image over bytes.
    ///
    /// # Errors
    /// [`ImageError::Buffer`] if there are not `height * width * channels` bytes.
    pub fn new(size: Size, pixels: Vec<u8>) -> Result<Image, ImageError> {
        check_len(size, pixels.len())?;
        let Size {
            height,
            width,
            channels,
        } = size;
        Ok(Image {
            height,
            width,
            channels,
            pixels,
        })
    }

    /// Height, width and channels.
    pub fn size(&self) -> Size {
        Size {
            height: self.height,
            width: self.width,
            channels: self.channels,
        }
    }
}
