//! A window of an image in memory, mirrored or not.

use crate::Size;

/// A window that may reach over the edges of an image.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// First line and column.
    pub(super) at: [isize; 2],
    pub(super) width: usize,
    pub(super) mirror: bool,
}

/// Writes a window of an image. Each number is `f(pixel, index, channel)`; outside of the image the pixel is 0 and there is
/// no index.
pub(super) fn cut(
    image: &[u8],
    size: Size,
    window: Cut,
    out: &mut [f32],
    f: impl Fn(f32, Option<usize>, usize) -> f32,
) {
    let channels = size.channels;
    let place = |at: isize, i: usize, n: usize| {
        at.checked_add_unsigned(i)
            .and_then(|x| usize::try_from(x).ok())
            .filter(|&x| x < n)
    };
    let lines = out.chunks_exact_mut((window.width * channels).max(1));
    for (i, out) in lines.enumerate() {
        let y = place(window.at[0], i, size.height);
        for (j, out) in out.chunks_exact_mut(channels.max(1)).enumerate() {
            let j = if window.mirror {
                window.width - 1 - j
            } else {
                j
            };
            let x = place(window.at[1], j, size.width);
            for (k, out) in out.iter_mut().enumerate() {
                let at = y.zip(x).map(|(y, x)| (y * size.width + x) * channels + k);
                *out = f(at.map_or(0.0, |at| f32::from(image[at])), at, k);
            }
        }
    }
}
