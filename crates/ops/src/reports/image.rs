//! Summaries of images: numbers converted to 8-bit pixels, and encoded as PNG.
//!
//! The conversion is that of TensorFlow (`tensorflow/core/kernels/summary_image_op.cc`), computed in the dtype of the
//! images as there.

use half::f16;
use thalweg_device::KernelError;
use thalweg_tensor::{DType, Tensor};

use super::wire::{Message, TAG, VALUE};

// Field numbers of a `Summary.Value`, and of its `Image`.
const IMAGE: u32 = 4;
const HEIGHT: u32 = 1;
const WIDTH: u32 = 2;
const COLORSPACE: u32 = 3;
const ENCODED: u32 = 4;

/// If the largest magnitude is smaller, the image is black: division by it could overflow.
const MIN_MAGNITUDE: f32 = 1e-6;

/// Default colour of pixels that are not finite: opaque red.
pub const BAD_COLOR: [u8; 4] = [255, 0, 0, 255];

/// Summary of the first `max_images` of a batch of images, each as a PNG.
///
/// `images` has the shape `[n, height, width, channels]`; one channel is grey, three are RGB and four RGB with
/// alpha. `u8` is used unchanged. Floats are scaled, each image by itself: so that its largest number becomes
/// 255, or, if it has numbers below zero, so that zero becomes 128 and its largest magnitude lies 127 from it.
/// A pixel with a number that is not finite is shown in `bad_color`, whose length is at least the number of
/// channels.
///
/// The tag of image `i` is `tag/image/i`, or `tag/image` if `max_images` is 1.
///
/// # Errors
/// [`KernelError::Invalid`] for another shape, no pixels, or too few numbers in `bad_color`;
/// [`KernelError::DType`] for other dtypes than `u8`, `f16`, `f32` and `f64`.
///
/// ```
/// use thalweg_ops::summaries::{self, BAD_COLOR};
/// use thalweg_tensor::{DType, Tensor};
///
/// # fn main() -> Result<(), thalweg_device::KernelError> {
/// let digits = Tensor::zeros(DType::F32, &[2, 28, 28, 1])?;
/// let summary = summaries::image(b"digits", &digits, 3, &BAD_COLOR)?;
/// assert!(summary.windows(14).any(|w| w == b"digits/image/1"));
/// # Ok(())
/// # }
/// ```
pub fn image(
    tag: &[u8],
    images: &Tensor,
    max_images: usize,
    bad_color: &[u8],
) -> Result<Vec<u8>, KernelError> {
    let &[n, height, width, channels @ (1 | 3 | 4)] = images.dims() else {
        let found = images.shape();
        return Err(KernelError::Invalid(format!(
            "images have the shape [n, height, width, channels] with 1, 3 or 4 channels, and not {found}"
        )));
    };
    let Some(bad) = bad_color.get(..channels) else {
        return Err(KernelError::Invalid(format!(
            "bad_color has {} numbers, but the images have {channels} channels: give one for each",
            bad_color.len()
        )));
    };
    let shades: Vec<Vec<u8>> = match images.dtype() {
        DType::U8 => convert_images(images.as_slice::<u8>()?, n, max_images, <[u8]>::to_vec),
        DType::F32 => convert_images(images.as_slice::<f32>()?, n, max_images, |x| {
            to_pixels(x, bad)
        }),
        DType::F64 => convert_images(images.as_slice::<f64>()?, n, max_images, |x| {
            to_pixels(x, bad)
        }),
        DType::F16 => convert_images(images.as_slice::<f16>()?, n, max_images, |x| {
            to_pixels(x, bad)
        }),
        other => return Err(KernelError::DType(other)),
    };
    let mut summary = Message::default();
    for (i, shades) in shades.iter().enumerate() {
        let image = Message::default()
            .int(HEIGHT, height as u64)
            .int(WIDTH, width as u64)
            .int(COLORSPACE, channels as u64)
            .bytes(ENCODED, &png(shades, height, width, channels)?);
        // The name depends on the requested number of images, not on the actual one, so it stays the same.
        let behind = match max_images {
            1 => "/image".to_owned(),
            _ => format!("/image/{i}"),
        };
        let value = Message::default().bytes(TAG, &[tag, behind.as_bytes()].concat());
        summary = summary.bytes(VALUE, &value.bytes(IMAGE, &image.0).0);
    }
    Ok(summary.0)
}

/// Pixels of each of the first images.
fn convert_images<T>(
    all: &[T],
    n: usize,
    max_images: usize,
    shades: impl Fn(&[T]) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    // Not the product of the other dimensions, which could overflow if there are no images.
    let size = all.len() / n.max(1);
    let each = (0..n.min(max_images)).map(|i| &all[i * size..][..size]);
    each.map(shades).collect()
}

/// Element of an image.
trait PixelValue: Copy {
    fn wide(self) -> f32;
    /// Returns `true` if it is finite in its own dtype: converted to `f32` it may not be.
    fn finite(self) -> bool;
    /// `self * scale + offset`, computed in its own dtype, without the fraction.
    fn scaled(self, scale: f32, offset: f32) -> u8;
}

impl PixelValue for f32 {
    fn wide(self) -> f32 {
        self
    }
    fn finite(self) -> bool {
        self.is_finite()
    }
    fn scaled(self, scale: f32, offset: f32) -> u8 {
        (self * scale + offset) as u8
    }
}

impl PixelValue for f64 {
    fn wide(self) -> f32 {
        self as f32
    }
    fn finite(self) -> bool {
        self.is_finite()
    }
    fn scaled(self, scale: f32, offset: f32) -> u8 {
        (self * f64::from(scale) + f64::from(offset)) as u8
    }
}

impl PixelValue for f16 {
    fn wide(self) -> f32 {
        self.to_f32()
    }
    fn finite(self) -> bool {
        self.is_finite()
    }
    fn scaled(self, scale: f32, offset: f32) -> u8 {
        let scaled = self * f16::from_f32(scale) + f16::from_f32(offset);
        scaled.to_f32() as u8
    }
}

/// Converts an image whose pixels have as many channels as `bad`.
fn to_pixels<T: PixelValue>(values: &[T], bad: &[u8]) -> Vec<u8> {
    let pixels = values.chunks_exact(bad.len());
    let finite = |pixel: &&[T]| pixel.iter().all(|x| x.finite());
    let shown = pixels.clone().filter(finite).flatten();
    let (min, max) = shown.fold((f32::INFINITY, f32::NEG_INFINITY), |(min, max), x| {
        (min.min(x.wide()), max.max(x.wide()))
    });
    let over = |range: f32, magnitude: f32| {
        if magnitude < MIN_MAGNITUDE {
            0.0
        } else {
            range / magnitude
        }
    };
    let (scale, offset) = match min < 0.0 {
        true => (over(127.0, min.abs().max(max.abs())), 128.0),
        false => (over(255.0, max), 0.0),
    };
    let mut shades = Vec::with_capacity(values.len());
    for pixel in pixels {
        match finite(&pixel) {
            true => shades.extend(pixel.iter().map(|x| x.scaled(scale, offset))),
            false => shades.extend_from_slice(bad),
        }
    }
    shades
}

#[cfg(not(feature = "png"))]
fn png(_: &[u8], _: usize, _: usize, _: usize) -> Result<Vec<u8>, KernelError> {
    let text =
        "the program is built without images: add the feature `png` of the package `thalweg`";
    Err(KernelError::Invalid(text.to_owned()))
}

/// Encodes an image of 8 bits a channel as a PNG file.
#[cfg(feature = "png")]
fn png(
    shades: &[u8],
    height: usize,
    width: usize,
    channels: usize,
) -> Result<Vec<u8>, KernelError> {
    let no = |why: String| {
        KernelError::Invalid(format!(
            "an image of {height} by {width} pixels cannot be a PNG: {why}"
        ))
    };
    let size = |n: usize| u32::try_from(n).map_err(|_| no("a side has too many".to_owned()));
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size(width)?, size(height)?);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_color(match channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(shades)?;
        writer.finish()
    });
    written.map_err(|e| no(e.to_string()))?;
    Ok(bytes)
}
