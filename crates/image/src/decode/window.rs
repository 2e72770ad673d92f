//! Windows of decoded images.

use crate::{Size, Window};

/// Copies a window of an image, in which it lies, into `to`, whose contents are replaced.
pub(super) fn copy_window(image: &[u8], size: Size, window: Window, to: &mut Vec<u8>) -> Size {
    let line = window.width * size.channels;
    to.resize(window.height * line, 0);
    for (i, to) in to.chunks_exact_mut(line).enumerate() {
        let from = ((window.y + i) * size.width + window.x) * size.channels;
        to.copy_from_slice(&image[from..][..line]);
    }
    Size::new(window.height, window.width, size.channels)
}
