//! Bounds on images, and numbers of channels.

use crate::{Format, ImageError, Size};

/// Bounds on an image that is decoded, checked before memory is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most pixels of a picture.
    pub pixels: usize,
    /// Most bytes of the result. All frames of a GIF file count.
    pub bytes: usize,
}

impl Default for Limits {
    /// Less than 2^29 pixels, as in TensorFlow, and 2^31 bytes.
    fn default() -> Limits {
        Limits {
            pixels: (1 << 29) - 1,
            bytes: 1 << 31,
        }
    }
}

impl Limits {
    /// An error if a size is beyond the limits.
    pub(super) fn check(&self, format: Format, size: Size) -> Result<(), ImageError> {
        let too_large = |limit, what| ImageError::TooLarge {
            format,
            height: size.height,
            width: size.width,
            limit,
            what,
        };
        if size.height == 0 || size.width == 0 {
            return Err(ImageError::corrupt(format, "the image has no pixels"));
        }
        if size.height.saturating_mul(size.width) > self.pixels {
            return Err(too_large(self.pixels, "pixels"));
        }
        if size.elements() > self.bytes {
            return Err(too_large(self.bytes, "bytes"));
        }
        Ok(())
    }
}

/// Checks that a format gives the asked number of channels, and replaces 0 by that of the file.
pub(super) fn channels_of(
    format: Format,
    asked: usize,
    of_file: usize,
    allowed: &'static str,
    may: &[usize],
) -> Result<usize, ImageError> {
    match asked {
        0 => Ok(of_file),
        n if may.contains(&n) => Ok(n),
        asked => Err(ImageError::Channels {
            format,
            asked,
            allowed,
        }),
    }
}
