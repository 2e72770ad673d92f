//! Decoding of JPEG, PNG, BMP and GIF files.
//!
//! The format is that of the first bytes, whatever the name of the file: a PNG under the name of a JPEG decodes. Numbers
//! of channels and conversions between them are those of TensorFlow's `DecodeImage`.
//!
//! | format | channels | notes |
//! | --- | --- | --- |
//! | JPEG | 1, 3 | baseline and progressive; CMYK and YCCK become RGB |
//! | PNG | 1, 2, 3, 4 | all depths, palettes, transparency, interlacing |
//! | BMP | 1, 3, 4 | 8, 24 and 32 bits a pixel, not compressed; colours do not become grey |
//! | GIF | 3 | the first frame; [`gif_frames`] has all |

mod bmp;
mod gif;
mod jpeg;
mod jpeg_color;
mod jpeg_header;
mod limits;
mod png;
#[cfg(feature = "turbojpeg")]
mod turbo;
mod window;
#[cfg(not(feature = "turbojpeg"))]
mod zune;

use self::window::copy_window;
use crate::error::check_window;
use crate::{Format, Image, ImageError, Size, Window};

#[cfg(feature = "turbojpeg")]
use self::turbo::Jpeg;
#[cfg(not(feature = "turbojpeg"))]
use self::zune::Jpeg;

pub use self::gif::{Frames, gif_frames};
pub use self::limits::Limits;
pub use self::png::png_u16;

/// Decoder of images, with its limits and buffers that it uses again.
///
/// ```
/// use thalweg_image::{Decoder, Image, Size, Window, encode};
///
/// # fn main() -> Result<(), thalweg_image::ImageError> {
/// let file = encode::png(&Image::new(Size::new(4, 4, 1), (0..16).collect())?)?;
/// let (mut decoder, mut pixels) = (Decoder::default(), Vec::new());
/// let window = Window { y: 1, x: 2, height: 2, width: 2 };
/// decoder.decode_window(&file, window, 1, &mut pixels)?;
/// assert_eq!(pixels, [6, 7, 10, 11]);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Decoder {
    limits: Limits,
    jpeg: Jpeg,
    /// A whole image of which a window is cut.
    whole: Vec<u8>,
}

impl Decoder {
    /// A decoder that refuses images beyond `limits`.
    pub fn new(limits: Limits) -> Decoder {
        Decoder {
            limits,
            ..Decoder::default()
        }
    }

    /// Decodes a file into `pixels`, whose contents are replaced.
    ///
    /// `channels` is the number of channels of the result, or 0 for the number in the file.
    ///
    /// # Errors
    /// [`ImageError`] for bytes that are no image, an image beyond the limits, or a number of channels that the
    /// format cannot give.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        channels: usize,
        pixels: &mut Vec<u8>,
    ) -> Result<Size, ImageError> {
        match format_of(bytes)? {
            Format::Jpeg => self.jpeg.decode(bytes, channels, &self.limits, pixels),
            Format::Png => png::decode(bytes, channels, &self.limits, pixels),
            Format::Bmp => bmp::decode(bytes, channels, &self.limits, pixels),
            Format::Gif => gif::first(bytes, channels, &self.limits, pixels),
        }
    }

    /// Decodes a window of a file into `pixels`, whose contents are replaced.
    ///
    /// Of most JPEG files the lines below the window are not decoded, and with the feature `turbojpeg` the pixels beside
    /// it neither.
    ///
    /// # Errors
    /// Those of [`Decoder::decode`], and [`ImageError::Window`] for a window that does not lie in the image.
    pub fn decode_window(
        &mut self,
        bytes: &[u8],
        window: Window,
        channels: usize,
        pixels: &mut Vec<u8>,
    ) -> Result<Size, ImageError> {
        check_window(window, size_of(bytes)?)?;
        if format_of(bytes)? == Format::Jpeg {
            return self
                .jpeg
                .decode_window(bytes, window, channels, &self.limits, pixels);
        }
        let mut whole = std::mem::take(&mut self.whole);
        let decoded = self.decode(bytes, channels, &mut whole);
        self.whole = whole;
        let size = decoded?;
        // A GIF's header and its frames may differ.
        check_window(window, size)?;
        Ok(copy_window(&self.whole, size, window, pixels))
    }
}

/// The format that the first bytes of a file tell.
fn format_of(bytes: &[u8]) -> Result<Format, ImageError> {
    Format::of(bytes).ok_or_else(|| ImageError::UnknownFormat {
        start: bytes[..bytes.len().min(8)].to_vec(),
    })
}

/// Decodes a file within the default [`Limits`]. See [`Decoder::decode`].
///
/// # Errors
/// Those of [`Decoder::decode`].
pub fn decode(bytes: &[u8], channels: usize) -> Result<Image, ImageError> {
    let mut pixels = Vec::new();
    let size = Decoder::default().decode(bytes, channels, &mut pixels)?;
    Image::new(size, pixels)
}

/// Size of an image, from the header alone. The channels are those that decoding to 0 channels gives.
///
/// # Errors
/// [`ImageError`] for bytes that are no image.
pub fn size_of(bytes: &[u8]) -> Result<Size, ImageError> {
    match format_of(bytes)? {
        Format::Jpeg => Ok(jpeg_header::JpegHeader::parse(bytes)?.size()),
        Format::Png => png::size(bytes),
        Format::Bmp => Ok(bmp::BmpHeader::parse(bytes)?.size()),
        Format::Gif => gif::size(bytes),
    }
}
