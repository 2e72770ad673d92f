//! Decoding of GIF files as TensorFlow does (`gif_io.cc`): each frame is drawn over the one before it, and disposal
//! methods have no effect.

use gif::{ColorOutput, DecodeOptions, Frame, MemoryLimit};

use super::limits::{Limits, channels_of};
use crate::{Format, ImageError, Size};

const GIF: Format = Format::Gif;
const CHANNELS: usize = 3;

/// The frames of an animation, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Number of frames.
    pub count: usize,
    /// Size of a frame.
    pub size: Size,
    /// `count * height * width * channels` bytes.
    pub pixels: Vec<u8>,
}

/// Size of the canvas, which the header has.
pub(super) fn size(bytes: &[u8]) -> Result<Size, ImageError> {
    let &[_, _, _, _, _, _, w0, w1, h0, h1, ..] = bytes else {
        return Err(truncated(bytes));
    };
    let (height, width) = (u16::from_le_bytes([h0, h1]), u16::from_le_bytes([w0, w1]));
    Ok(Size::new(height.into(), width.into(), CHANNELS))
}

fn truncated(bytes: &[u8]) -> ImageError {
    ImageError::Truncated {
        format: GIF,
        bytes: bytes.len(),
    }
}

/// All frames of a GIF file, in RGB.
///
/// # Errors
/// [`ImageError`] for bytes that are no GIF file, or frames beyond `limits`.
pub fn gif_frames(bytes: &[u8], limits: &Limits) -> Result<Frames, ImageError> {
    let mut pixels = Vec::new();
    let (count, size) = draw(bytes, limits, usize::MAX, &mut pixels)?;
    Ok(Frames {
        count,
        size,
        pixels,
    })
}

/// Decodes the first frame.
pub(super) fn first(
    bytes: &[u8],
    channels: usize,
    limits: &Limits,
    pixels: &mut Vec<u8>,
) -> Result<Size, ImageError> {
    channels_of(GIF, channels, CHANNELS, "3", &[CHANNELS])?;
    Ok(draw(bytes, limits, 1, pixels)?.1)
}

/// Draws the first frames, at most `most`, one behind the other.
fn draw(
    bytes: &[u8],
    limits: &Limits,
    most: usize,
    pixels: &mut Vec<u8>,
) -> Result<(usize, Size), ImageError> {
    let corrupt = |e: gif::DecodingError| ImageError::corrupt(GIF, e);
    let size = size(bytes)?;
    limits.check(GIF, size)?;
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    if let Some(limit) = std::num::NonZeroU64::new(limits.bytes as u64) {
        options.set_memory_limit(MemoryLimit::Bytes(limit));
    }
    let mut reader = options.read_info(bytes).map_err(corrupt)?;
    let global = reader.global_palette().map(<[u8]>::to_vec);
    pixels.clear();
    let mut count = 0;
    while count < most {
        let frame = match reader.read_next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            // Frames before the damage are good, as in TensorFlow.
            Err(_) if count > 0 => break,
            Err(e) => return Err(corrupt(e)),
        };
        let whole = Size {
            height: size.height.saturating_mul(count + 1),
            ..size
        };
        if whole.elements() > limits.bytes {
            return Err(ImageError::TooLarge {
                format: GIF,
                height: whole.height,
                width: whole.width,
                limit: limits.bytes,
                what: "bytes in all frames",
            });
        }
        let before = pixels.len();
        match before.checked_sub(size.elements()) {
            None => pixels.resize(size.elements(), 0),
            Some(last) => pixels.extend_from_within(last..),
        }
        let palette = frame.palette.as_deref().or(global.as_deref());
        let palette =
            palette.ok_or_else(|| ImageError::corrupt(GIF, "a frame has no colour map"))?;
        draw_frame(frame, palette, size, &mut pixels[before..])?;
        count += 1;
    }
    match count {
        0 => Err(truncated(bytes)),
        n => Ok((n, size)),
    }
}

/// Draws the pixels of a frame that lie on the canvas.
fn draw_frame(
    frame: &Frame<'_>,
    palette: &[u8],
    size: Size,
    canvas: &mut [u8],
) -> Result<(), ImageError> {
    let (top, left) = (usize::from(frame.top), usize::from(frame.left));
    let width = usize::from(frame.width);
    if width == 0 {
        return Ok(());
    }
    for (i, line) in frame.buffer.chunks_exact(width).enumerate() {
        if top + i >= size.height {
            break;
        }
        let visible = size.width.saturating_sub(left).min(width);
        for (j, &index) in line[..visible].iter().enumerate() {
            if frame.transparent == Some(index) {
                continue;
            }
            let Some(color) = palette
                .get(CHANNELS * usize::from(index)..)
                .and_then(|p| p.get(..CHANNELS))
            else {
                let reason = format!("a pixel has colour {index}, which its colour map lacks");
                return Err(ImageError::corrupt(GIF, reason));
            };
            let at = ((top + i) * size.width + left + j) * CHANNELS;
            canvas[at..][..CHANNELS].copy_from_slice(color);
        }
    }
    Ok(())
}
