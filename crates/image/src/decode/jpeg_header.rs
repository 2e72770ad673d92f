//! Headers of JPEG files: the segments before the first scan.

use crate::{Format, ImageError, Size};

/// The colour space of a file's components, by the rules of libjpeg (`default_decompress_parms` in `jdapimin.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Grey,
    YCbCr,
    Rgb,
    Cmyk,
    Ycck,
}

/// The facts of a header that decoding needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct JpegHeader {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) coding: Coding,
    /// Adobe's segment is there: CMYK is stored inverted.
    pub(super) adobe: bool,
    /// Offset of the first scan.
    pub(super) scan: usize,
    /// Offset of the number of lines, two bytes.
    lines_at: usize,
    /// The blocks of a file stand in the order of its lines: one scan has all components, whole.
    by_lines: bool,
}

const JPEG: Format = Format::Jpeg;

impl JpegHeader {
    pub(super) fn parse(bytes: &[u8]) -> Result<JpegHeader, ImageError> {
        let truncated = || ImageError::Truncated {
            format: JPEG,
            bytes: bytes.len(),
        };
        // Lines, columns and the identifiers of components.
        let mut frame: Option<(usize, usize, Vec<u8>)> = None;
        let (mut lines_at, mut sequential) = (0, false);
        let (mut jfif, mut adobe) = (false, None);
        let mut at = 2;
        loop {
            // Decoders skip bytes until a marker, and fill bytes before its code.
            while *bytes.get(at).ok_or_else(truncated)? != 0xff {
                at += 1;
            }
            while *bytes.get(at).ok_or_else(truncated)? == 0xff {
                at += 1;
            }
            let marker = bytes[at];
            at += 1;
            if matches!(marker, 0x00 | 0x01 | 0xd0..=0xd8) {
                continue;
            }
            if marker == 0xd9 {
                return Err(ImageError::corrupt(JPEG, "it ends before its first scan"));
            }
            let length = match bytes.get(at..at + 2) {
                Some(&[high, low]) => usize::from(high) << 8 | usize::from(low),
                _ => return Err(truncated()),
            };
            let Some(segment) = bytes.get(at + 2..at + length.max(2)) else {
                return Err(truncated());
            };
            match marker {
                0xda => {
                    let all = frame.as_ref().map(|(_, _, components)| components.len());
                    sequential &= segment.first().map(|&n| usize::from(n)) == all;
                    break;
                }
                0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                    frame = Some(frame_of(segment, at)?);
                    // The length, and the precision, stand before the lines.
                    (lines_at, sequential) = (at + 3, matches!(marker, 0xc0 | 0xc1));
                }
                0xe0 if segment.starts_with(b"JFIF\0") => jfif = true,
                0xee if segment.starts_with(b"Adobe") => adobe = segment.get(11).copied(),
                _ => {}
            }
            at += length.max(2);
        }
        let Some((height, width, components)) = frame else {
            return Err(ImageError::corrupt(JPEG, "it has a scan but no frame"));
        };
        let coding = match (&*components, adobe) {
            ([_], _) => Coding::Grey,
            ([_, _, _], _) if jfif => Coding::YCbCr,
            ([_, _, _], Some(0)) | ([b'R', b'G', b'B'], None) => Coding::Rgb,
            ([_, _, _], _) => Coding::YCbCr,
            ([_, _, _, _], None | Some(0)) => Coding::Cmyk,
            ([_, _, _, _], Some(_)) => Coding::Ycck,
            (other, _) => {
                let reason = format!("it has {} components", other.len());
                return Err(ImageError::unsupported(JPEG, reason));
            }
        };
        Ok(JpegHeader {
            height,
            width,
            coding,
            adobe: adobe.is_some(),
            scan: at,
            lines_at,
            by_lines: sequential,
        })
    }

    /// The size with as many channels as decoding gives.
    pub(super) fn size(&self) -> Size {
        let channels = if self.coding == Coding::Grey { 1 } else { 3 };
        Size::new(self.height, self.width, channels)
    }

    /// A file of the first lines alone, for decoders that decode whole files: `bytes` with another number of lines. The
    /// decoder passes over the rest. `None` if it would have to decode the rest too.
    pub(super) fn first_lines(&self, bytes: &[u8], lines: usize) -> Option<Vec<u8>> {
        if !self.by_lines || lines >= self.height {
            return None;
        }
        let mut cut = bytes.to_vec();
        let number = u16::try_from(lines).ok()?.to_be_bytes();
        cut.get_mut(self.lines_at..self.lines_at + 2)?
            .copy_from_slice(&number);
        Some(cut)
    }

    /// An error if the bytes cannot encode so many pixels, or lack the end marker.
    pub(super) fn check(&self, bytes: &[u8]) -> Result<(), ImageError> {
        // A progressive file can encode a block of 64 pixels in a bit; twice that leaves room for odd sampling.
        const MAX_PIXELS_OF_BYTE: usize = 1024;
        if self.height * self.width / MAX_PIXELS_OF_BYTE > bytes.len() {
            return Err(ImageError::TooShort {
                format: JPEG,
                height: self.height,
                width: self.width,
                bytes: bytes.len(),
            });
        }
        let mut pairs = bytes[self.scan..].windows(2).rev();
        match pairs.any(|pair| pair == [0xff, 0xd9]) {
            true => Ok(()),
            false => Err(ImageError::Truncated {
                format: JPEG,
                bytes: bytes.len(),
            }),
        }
    }
}

/// Lines, columns and identifiers of a frame segment, which begins at `at`.
fn frame_of(segment: &[u8], at: usize) -> Result<(usize, usize, Vec<u8>), ImageError> {
    let &[precision, h1, h0, w1, w0, n, ref rest @ ..] = segment else {
        return Err(ImageError::corrupt(
            JPEG,
            format!("the frame at byte {at} is too short"),
        ));
    };
    let components = rest.chunks_exact(3);
    if components.len() != usize::from(n) {
        let reason = format!("the frame at byte {at} has not the components that it announces");
        return Err(ImageError::corrupt(JPEG, reason));
    }
    if precision != 8 {
        let reason = format!("it has {precision} bits a sample, and 8 are supported");
        return Err(ImageError::unsupported(JPEG, reason));
    }
    let number = |high: u8, low: u8| usize::from(high) << 8 | usize::from(low);
    let (height, width) = (number(h1, h0), number(w1, w0));
    if height == 0 || width == 0 {
        return Err(ImageError::corrupt(
            JPEG,
            format!("the frame at byte {at} is {height} x {width} pixels"),
        ));
    }
    Ok((height, width, components.map(|c| c[0]).collect()))
}
