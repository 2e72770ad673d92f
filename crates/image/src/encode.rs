//! Encoding of JPEG and PNG files.

use jpeg_encoder::{ColorType, Encoder, PixelDensity, PixelDensityUnit, SamplingFactor};

use crate::error::check_len;
use crate::{Format, Image, ImageError, Size};

/// Options of a JPEG file, with TensorFlow's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JpegOptions {
    /// 1 to 100; larger is better and longer.
    pub quality: u8,
    /// The picture comes in several passes.
    pub progressive: bool,
    /// Huffman tables for this picture, which make it shorter and take time.
    pub optimize_size: bool,
    /// Colours have half of the height and width.
    pub chroma_downsampling: bool,
    /// Pixels per unit of length, in x and y.
    pub density: [u16; 2],
    /// The unit is a centimetre, not an inch.
    pub per_centimetre: bool,
}

impl Default for JpegOptions {
    fn default() -> JpegOptions {
        JpegOptions {
            quality: 95,
            progressive: false,
            optimize_size: false,
            chroma_downsampling: true,
            density: [300, 300],
            per_centimetre: false,
        }
    }
}

/// Encodes an image of 1 or 3 channels as a JPEG file.
///
/// # Errors
/// [`ImageError`] for other channels, sides of 0 or more than 65,535 pixels, or a quality beyond 1 to 100.
pub fn jpeg(image: &Image, options: &JpegOptions) -> Result<Vec<u8>, ImageError> {
    let mut file = Vec::new();
    jpeg_into(&image.pixels, image.size(), options, &mut file)?;
    Ok(file)
}

/// Appends an image of 1 or 3 channels to `file` as [`jpeg`] encodes it.
///
/// # Errors
/// Those of [`jpeg`], and [`ImageError::Buffer`] for a wrong number of pixels.
pub fn jpeg_into(
    pixels: &[u8],
    size: Size,
    options: &JpegOptions,
    file: &mut Vec<u8>,
) -> Result<(), ImageError> {
    check_len(size, pixels.len())?;
    let color = match size.channels {
        1 => ColorType::Luma,
        3 => ColorType::Rgb,
        asked => {
            return Err(ImageError::Channels {
                format: Format::Jpeg,
                asked,
                allowed: "1 or 3",
            });
        }
    };
    if !(1..=100).contains(&options.quality) {
        let text = format!(
            "the quality of a JPEG is 1 to 100, and not {}",
            options.quality
        );
        return Err(ImageError::Argument(text));
    }
    let [height, width] = [size.height, size.width].map(|n| u16::try_from(n).unwrap_or(0));
    if height == 0 || width == 0 {
        let text = format!(
            "an image of {} x {} pixels cannot be a JPEG: a side has 1 to 65535",
            size.height, size.width
        );
        return Err(ImageError::Argument(text));
    }
    let mut encoder = Encoder::new(&mut *file, options.quality);
    encoder.set_progressive(options.progressive);
    encoder.set_optimized_huffman_tables(options.optimize_size);
    encoder.set_sampling_factor(match options.chroma_downsampling {
        true => SamplingFactor::F_2_2,
        false => SamplingFactor::F_1_1,
    });
    encoder.set_density(PixelDensity {
        density: (options.density[0], options.density[1]),
        unit: match options.per_centimetre {
            true => PixelDensityUnit::Centimeters,
            false => PixelDensityUnit::Inches,
        },
    });
    let encoded = encoder.encode(pixels, width, height, color);
    encoded.map_err(|e| ImageError::Argument(format!("the image cannot be a JPEG: {e}")))
}

/// Encodes an image of 1 to 4 channels as a PNG file.
///
/// # Errors
/// [`ImageError`] for other channels, or a side of 0 pixels.
pub fn png(image: &Image) -> Result<Vec<u8>, ImageError> {
    let mut file = Vec::new();
    png_into(&image.pixels, image.size(), png::BitDepth::Eight, &mut file)?;
    Ok(file)
}

/// Encodes an image of 1 to 4 channels of 16 bits as a PNG file.
///
/// # Errors
/// Those of [`png()`], and [`ImageError::Buffer`] for a wrong number of pixels.
pub fn png_u16(pixels: &[u16], size: Size) -> Result<Vec<u8>, ImageError> {
    check_len(size, pixels.len())?;
    let bytes: Vec<u8> = pixels.iter().flat_map(|x| x.to_be_bytes()).collect();
    let mut file = Vec::new();
    png_into(&bytes, size, png::BitDepth::Sixteen, &mut file)?;
    Ok(file)
}

fn png_into(
    bytes: &[u8],
    size: Size,
    depth: png::BitDepth,
    file: &mut Vec<u8>,
) -> Result<(), ImageError> {
    let fails = |e: png::EncodingError| {
        ImageError::Argument(format!(
            "an image of {} x {} pixels cannot be a PNG: {e}",
            size.height, size.width
        ))
    };
    let color = match size.channels {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        4 => png::ColorType::Rgba,
        asked => {
            return Err(ImageError::Channels {
                format: Format::Png,
                asked,
                allowed: "1, 2, 3 or 4",
            });
        }
    };
    // A side that is too long becomes 0, which the encoder refuses.
    let [height, width] = [size.height, size.width].map(|n| u32::try_from(n).unwrap_or(0));
    let mut encoder = png::Encoder::new(file, width, height);
    encoder.set_color(color);
    encoder.set_depth(depth);
    let mut writer = encoder.write_header().map_err(fails)?;
    writer.write_image_data(bytes).map_err(fails)?;
    writer.finish().map_err(fails)
}
