//! Decoding of BMP files as TensorFlow does (`decode_image_op.cc`): 8 bits are grey without a palette, 24 are BGR, 32
//! are BGR with alpha. Compressed files are refused.

use super::limits::{Limits, channels_of};
use crate::{Format, ImageError, Size};

/// The facts of a header that decoding needs.
pub(super) struct BmpHeader {
    /// Offset of the pixels.
    offset: usize,
    height: usize,
    width: usize,
    channels: usize,
    /// The first line of the file is the top one.
    top_down: bool,
}

/// Bytes of the file header and of the part of the image header that is read.
const HEADER: usize = 34;

impl BmpHeader {
    pub(super) fn parse(bytes: &[u8]) -> Result<BmpHeader, ImageError> {
        let Some(header) = bytes.get(..HEADER) else {
            return Err(ImageError::Truncated {
                format: Format::Bmp,
                bytes: bytes.len(),
            });
        };
        let word = |at: usize| std::array::from_fn(|i| header[at + i]);
        let (width, height) = (i32::from_le_bytes(word(18)), i32::from_le_bytes(word(22)));
        let depth = u16::from_le_bytes([header[28], header[29]]);
        let compression = u32::from_le_bytes(word(30));
        let channels = match depth {
            8 => 1,
            24 => 3,
            32 => 4,
            _ => {
                let reason = format!("it has {depth} bits a pixel, and 8, 24 and 32 are supported");
                return Err(ImageError::unsupported(Format::Bmp, reason));
            }
        };
        // 3 says that masks of the channels follow; programs write those of BGRA.
        if !(compression == 0 || compression == 3 && depth == 32) {
            let reason = format!("its pixels are compressed (method {compression})");
            return Err(ImageError::unsupported(Format::Bmp, reason));
        }
        let Ok(width) = usize::try_from(width) else {
            let reason = format!("its width at byte 18 is {width}");
            return Err(ImageError::corrupt(Format::Bmp, reason));
        };
        Ok(BmpHeader {
            offset: u32::from_le_bytes(word(10)) as usize,
            height: height.unsigned_abs() as usize,
            width,
            channels,
            top_down: height < 0,
        })
    }

    pub(super) fn size(&self) -> Size {
        Size::new(self.height, self.width, self.channels)
    }
}

/// Decodes a file.
pub(super) fn decode(
    bytes: &[u8],
    channels: usize,
    limits: &Limits,
    pixels: &mut Vec<u8>,
) -> Result<Size, ImageError> {
    let header = BmpHeader::parse(bytes)?;
    let of_file = header.size();
    let (allowed, may): (_, &[usize]) = match header.channels {
        1 => ("1, 3 or 4", &[1, 3, 4]),
        _ => ("3 or 4, because it has colours,", &[3, 4]),
    };
    let channels = channels_of(Format::Bmp, channels, of_file.channels, allowed, may)?;
    let size = Size {
        channels,
        ..of_file
    };
    limits.check(Format::Bmp, size)?;
    let from = header.channels;
    let line = size.width * from;
    // Lines are filled up to 4 bytes.
    let stride = line.next_multiple_of(4);
    let data = bytes.get(header.offset..).unwrap_or_default();
    // The last line may lack its filling.
    if data.len() < stride * (size.height - 1) + line {
        return Err(ImageError::Truncated {
            format: Format::Bmp,
            bytes: bytes.len(),
        });
    }
    pixels.resize(size.elements(), 0);
    for (i, to) in pixels.chunks_exact_mut(size.width * channels).enumerate() {
        let i = match header.top_down {
            true => i,
            false => size.height - 1 - i,
        };
        let line = &data[i * stride..][..line];
        for (to, pixel) in to.chunks_exact_mut(channels).zip(line.chunks_exact(from)) {
            match *pixel {
                [grey] => to[..channels.min(3)].fill(grey),
                [b, g, r, ..] => to[..3].copy_from_slice(&[r, g, b]),
                _ => {}
            }
            if channels == 4 {
                to[3] = pixel.get(3).copied().unwrap_or(255);
            }
        }
    }
    Ok(size)
}
