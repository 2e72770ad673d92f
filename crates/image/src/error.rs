//! Errors of images.

use crate::{Format, Size, Window};

/// An image that cannot be read, written or computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes are of no known format.
    #[error(
        "the bytes are no image: a JPEG, PNG, BMP or GIF file is expected, and it begins with {start:02x?}"
    )]
    UnknownFormat {
        /// The first bytes, at most 8.
        start: Vec<u8>,
    },
    /// A header claims more than the limits allow.
    #[error(
        "the {format} file claims to be {height} x {width} pixels, which is more than {limit} {what}: \
         raise the limit if you trust the file"
    )]
    TooLarge {
        /// Format of the file.
        format: Format,
        /// Lines of pixels.
        height: usize,
        /// Pixels of a line.
        width: usize,
        /// The limit that is exceeded.
        limit: usize,
        /// The unit of the limit.
        what: &'static str,
    },
    /// A header claims more pixels than so few bytes can encode.
    #[error(
        "the {format} file claims to be {height} x {width} pixels, but has {bytes} bytes, which cannot encode so many: \
         the file is truncated or corrupt"
    )]
    TooShort {
        /// Format of the file.
        format: Format,
        /// Lines of pixels.
        height: usize,
        /// Pixels of a line.
        width: usize,
        /// Length of the file.
        bytes: usize,
    },
    /// The file ends early.
    #[error("the {format} file is truncated: it ends after {bytes} bytes without its end marker")]
    Truncated {
        /// Format of the file.
        format: Format,
        /// Length of the file.
        bytes: usize,
    },
    /// The file contradicts its format.
    #[error("the {format} file is corrupt: {reason}")]
    Corrupt {
        /// Format of the file.
        format: Format,
        /// The place and the contradiction.
        reason: String,
    },
    /// The file uses a part of its format that is not supported.
    #[error("the {format} file is not supported: {reason}")]
    Unsupported {
        /// Format of the file.
        format: Format,
        /// The part.
        reason: String,
    },
    /// A number of channels that the format cannot give.
    #[error(
        "the {format} image has no form with {asked} channels: ask for {allowed}, or for 0, the number in the file"
    )]
    Channels {
        /// Format of the file.
        format: Format,
        /// The number that was asked for.
        asked: usize,
        /// The numbers that it can give.
        allowed: &'static str,
    },
    /// A window that does not lie in the image, or has no pixels.
    #[error(
        "the window of {} x {} pixels at ({}, {}) is not inside the image of {} x {} pixels",
        window.height, window.width, window.y, window.x, size.height, size.width
    )]
    Window {
        /// The window.
        window: Window,
        /// Size of the image.
        size: Size,
    },
    /// A buffer of another length than the image.
    #[error("a buffer of {found} elements is no image of {height} x {width} x {channels}")]
    Buffer {
        /// Length of the buffer.
        found: usize,
        /// Lines of pixels.
        height: usize,
        /// Pixels of a line.
        width: usize,
        /// Channels of a pixel.
        channels: usize,
    },
    /// An argument out of its range.
    #[error("{0}")]
    Argument(String),
}

impl ImageError {
    pub(crate) fn corrupt(format: Format, reason: impl ToString) -> ImageError {
        ImageError::Corrupt {
            format,
            reason: reason.to_string(),
        }
    }

    pub(crate) fn unsupported(format: Format, reason: impl ToString) -> ImageError {
        ImageError::Unsupported {
            format,
            reason: reason.to_string(),
        }
    }
}

/// An error unless a buffer has as many elements as an image.
pub(crate) fn check_len(size: Size, found: usize) -> Result<(), ImageError> {
    let Size {
        height,
        width,
        channels,
    } = size;
    match size.elements() == found {
        true => Ok(()),
        false => Err(ImageError::Buffer {
            found,
            height,
            width,
            channels,
        }),
    }
}

/// An error unless a window has pixels and lies in an image.
pub(crate) fn check_window(window: Window, size: Size) -> Result<(), ImageError> {
    match window.lies_in(size) {
        true => Ok(()),
        false => Err(ImageError::Window { window, size }),
    }
}
