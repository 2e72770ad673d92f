//! Checks of JPEG files before they are decoded.

use super::jpeg_header::{Coding, JpegHeader};
use super::limits::{Limits, channels_of};
use crate::{Format, ImageError, Size, Window};

/// Reads and checks a header: what every backend does first. Returns it with the size of the result.
pub(super) fn header(
    bytes: &[u8],
    channels: usize,
    limits: &Limits,
) -> Result<(JpegHeader, Size), ImageError> {
    let header = JpegHeader::parse(bytes)?;
    let size = header.size();
    let channels = channels_of(Format::Jpeg, channels, size.channels, "1 or 3", &[1, 3])?;
    if channels == 1 && matches!(header.coding, Coding::Cmyk | Coding::Ycck) {
        return Err(ImageError::Channels {
            format: Format::Jpeg,
            asked: 1,
            allowed: "3, because it is CMYK,",
        });
    }
    let size = Size { channels, ..size };
    limits.check(Format::Jpeg, size)?;
    header.check(bytes)?;
    Ok((header, size))
}

/// Lines below a window that are decoded with it: colours at its lower edge are interpolated from them.
const LINES_BELOW: usize = 16;

/// A file whose last lines are those of a window, and its number of lines; `None` if all of the file is needed.
pub(super) fn without_lines_below(
    header: &JpegHeader,
    bytes: &[u8],
    window: Window,
) -> Option<(Vec<u8>, usize)> {
    let lines = window.y + window.height + LINES_BELOW;
    let cut = header.first_lines(bytes, lines)?;
    Some((cut, lines))
}
