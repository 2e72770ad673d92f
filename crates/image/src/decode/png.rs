//! Decoding of PNG files as TensorFlow does (`png_io.cc`).

use std::io::Cursor;

use png::{BitDepth, ColorType, Reader, Transformations};

use super::limits::{Limits, channels_of};
use crate::{Format, ImageError, Size};

const PNG: Format = Format::Png;

type PngReader<'a> = Reader<Cursor<&'a [u8]>>;

/// Size of an image; a palette has 3 channels, or 4 with transparency.
pub(super) fn size(bytes: &[u8]) -> Result<Size, ImageError> {
    Ok(open(bytes, usize::MAX)?.1)
}

fn corrupt(e: png::DecodingError) -> ImageError {
    ImageError::corrupt(PNG, e)
}

/// Reads the header. Returns the size with the channels that TensorFlow gives.
fn open(bytes: &[u8], memory: usize) -> Result<(PngReader<'_>, Size), ImageError> {
    let limits = png::Limits { bytes: memory };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::EXPAND);
    let reader = decoder.read_info().map_err(corrupt)?;
    let info = reader.info();
    let channels = match (info.color_type, info.trns.is_some()) {
        (ColorType::Grayscale, _) => 1,
        (ColorType::GrayscaleAlpha, _) => 2,
        (ColorType::Rgb, _) | (ColorType::Indexed, false) => 3,
        (ColorType::Rgba, _) | (ColorType::Indexed, true) => 4,
    };
    let size = Size::new(info.height as usize, info.width as usize, channels);
    Ok((reader, size))
}

/// A depth of the result.
trait Depth: Copy + Default {
    /// From a sample of 8 bits.
    fn narrow(x: u16) -> Self;
    /// From a sample of 16 bits.
    fn wide(x: u16) -> Self;
}

impl Depth for u8 {
    fn narrow(x: u16) -> u8 {
        x as u8
    }

    fn wide(x: u16) -> u8 {
        (x >> 8) as u8
    }
}

impl Depth for u16 {
    fn narrow(x: u16) -> u16 {
        x * 257
    }

    fn wide(x: u16) -> u16 {
        x
    }
}

/// The sum of a colour's channels with libpng's weights, which have 15 bits after the point.
fn weighted(rgb: [u16; 3]) -> u32 {
    const RED: u32 = 9797;
    const GREEN: u32 = 19234;
    let [r, g, b] = rgb.map(u32::from);
    RED * r + GREEN * g + (32768 - RED - GREEN) * b
}

/// Decodes a file to 8 bits a channel; of 16 bits the upper ones are taken.
pub(super) fn decode(
    bytes: &[u8],
    channels: usize,
    limits: &Limits,
    pixels: &mut Vec<u8>,
) -> Result<Size, ImageError> {
    decode_as(bytes, channels, limits, pixels)
}

/// Decodes a PNG file to 16 bits a channel; 8 bits are scaled to the whole range.
///
/// `channels` is the number of channels of the result, or 0 for the number in the file.
///
/// # Errors
/// [`ImageError`] for bytes that are no PNG file, an image beyond the limits, or a wrong number of channels.
pub fn png_u16(
    bytes: &[u8],
    channels: usize,
    limits: &Limits,
) -> Result<(Size, Vec<u16>), ImageError> {
    let mut pixels = Vec::new();
    let size = decode_as(bytes, channels, limits, &mut pixels)?;
    Ok((size, pixels))
}

fn decode_as<T: Depth>(
    bytes: &[u8],
    channels: usize,
    limits: &Limits,
    pixels: &mut Vec<T>,
) -> Result<Size, ImageError> {
    let (mut reader, size) = open(bytes, limits.bytes)?;
    let allowed = "1, 2, 3 or 4";
    let channels = channels_of(PNG, channels, size.channels, allowed, &[1, 2, 3, 4])?;
    let result = Size { channels, ..size };
    limits.check(PNG, result)?;
    // Deflate shrinks by a factor of 1032 at most. Each line has samples of at least a bit.
    let info = reader.info();
    let packed = info
        .raw_row_length()
        .saturating_sub(1)
        .saturating_mul(size.height);
    if packed / 1032 > bytes.len() {
        return Err(ImageError::TooShort {
            format: PNG,
            height: size.height,
            width: size.width,
            bytes: bytes.len(),
        });
    }
    let Some(n) = reader.output_buffer_size() else {
        return Err(ImageError::corrupt(PNG, "its size overflows"));
    };
    let mut samples = vec![0; n];
    let output = reader.next_frame(&mut samples).map_err(corrupt)?;
    let samples = &samples[..output.buffer_size()];
    pixels.resize(result.elements(), T::default());
    let [from, to] = [output.color_type.samples(), channels];
    match output.bit_depth {
        BitDepth::Sixteen => {
            let form = Form {
                from,
                to,
                opaque: u16::MAX,
                sample: |s: &[u8], i| u16::from_be_bytes([s[2 * i], s[2 * i + 1]]),
                grey: |rgb| ((weighted(rgb) + (1 << 14)) >> 15) as u16,
            };
            form.convert(samples, 2 * from, pixels, T::wide);
        }
        _ => {
            let form = Form {
                from,
                to,
                // TensorFlow fills in the largest number of the file's depth.
                opaque: (1 << reader.info().bit_depth as u8) - 1,
                sample: |s: &[u8], i| u16::from(s[i]),
                grey: |rgb| (weighted(rgb) >> 15) as u16,
            };
            form.convert(samples, from, pixels, T::narrow);
        }
    }
    Ok(result)
}

/// Pixels before and after a conversion.
struct Form<S, G> {
    /// Channels before it.
    from: usize,
    /// Channels after it.
    to: usize,
    /// Alpha of a pixel that has none.
    opaque: u16,
    /// A sample of a pixel.
    sample: S,
    /// Grey of a colour, computed in the depth of the file.
    grey: G,
}

impl<S: Fn(&[u8], usize) -> u16, G: Fn([u16; 3]) -> u16> Form<S, G> {
    /// Converts pixels of so many bytes.
    fn convert<T>(&self, samples: &[u8], bytes: usize, pixels: &mut [T], of: impl Fn(u16) -> T) {
        let (from, to) = (self.from, self.to);
        let pairs = pixels.chunks_exact_mut(to);
        for (out, pixel) in pairs.zip(samples.chunks_exact(bytes)) {
            let sample = |i: usize| (self.sample)(pixel, i);
            match (from < 3, to < 3) {
                (true, _) => (0..to.min(3)).for_each(|i| out[i] = of(sample(0))),
                (false, false) => (0..3).for_each(|i| out[i] = of(sample(i))),
                (false, true) => out[0] = of((self.grey)([sample(0), sample(1), sample(2)])),
            }
            if to % 2 == 0 {
                out[to - 1] = of(if from % 2 == 0 {
                    sample(from - 1)
                } else {
                    self.opaque
                });
            }
        }
    }
}
