//! Bands: some lines of an image, copied with padding written out and channels last.

use bytemuck::Pod;

use super::ConvGeometry;
use crate::scratch::for_chunks;
use crate::transpose::{Rows, transpose, transpose_to};
use crate::{Cpu, Isa, Layout};

/// Approximate bytes of a band: a part of the second-level cache.
const BAND_BYTES: usize = 1 << 17;
/// Number of tasks that a small batch is cut into, for threads to share.
const TARGET_TASKS: usize = 16;

/// The split of a batch's lines into bands: the same number for each image.
#[derive(Clone, Copy)]
pub(super) struct Bands {
    pub per_image: usize,
    /// Maximum number of lines in one.
    pub lines: usize,
}

impl Bands {
    /// Bands of `batch` images of `lines` lines, of `line_bytes` each.
    pub(super) fn new(batch: usize, lines: usize, line_bytes: usize) -> Self {
        let by_size = (lines * line_bytes).div_ceil(BAND_BYTES);
        let by_tasks = TARGET_TASKS.div_ceil(batch.max(1));
        let per_image = by_size.max(by_tasks).clamp(1, lines.max(1));
        Bands {
            per_image,
            lines: lines.div_ceil(per_image),
        }
    }
}

/// A batch of images in a slice.
#[derive(Clone, Copy)]
pub(super) struct Images<'a, T> {
    pub data: &'a [T],
    pub h: usize,
    pub w: usize,
    pub c: usize,
    pub layout: Layout,
}

impl<'a, T> Images<'a, T> {
    /// The input of a convolution.
    pub(super) fn input(g: &ConvGeometry, data: &'a [T]) -> Self {
        Images {
            data,
            h: g.in_h,
            w: g.in_w,
            c: g.in_c,
            layout: g.layout,
        }
    }

    /// The output of a convolution, or its gradient.
    pub(super) fn output(g: &ConvGeometry, data: &'a [T]) -> Self {
        Images {
            data,
            h: g.out_h,
            w: g.out_w,
            c: g.out_c,
            layout: g.layout,
        }
    }
}

/// The pixels of a band: lines and columns of an image, which may lie outside it, and some of its channels.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub image: usize,
    pub y: isize,
    pub lines: usize,
    pub x: isize,
    pub cols: usize,
    pub channel: usize,
    pub channels: usize,
}

impl<T: Pod> Images<'_, T> {
    /// Copies a window to `to`, channels last and `pixel` elements from a pixel to the next. Pixels outside the image
    /// are zero, and so are elements of each pixel behind its channels.
    pub(super) fn copy(&self, isa: Isa, window: Window, to: &mut [T], pixel: usize) {
        let Window {
            image,
            y,
            lines,
            x,
            cols,
            channel,
            channels,
        } = window;
        let (h, w, c) = (self.h, self.w, self.c);
        let data = &self.data[image * h * w * c..][..h * w * c];
        // The part of each line that lies inside the image, in columns of the window.
        let before = clamp(-x, cols);
        let inside = clamp(w as isize - x, cols).saturating_sub(before);
        let first = (x + before as isize) as usize;
        let whole = x == 0 && cols == w && y >= 0 && y as usize + lines <= h;
        if pixel != channels {
            to[..lines * cols * pixel].fill(T::zeroed());
        }
        if whole && self.layout == Layout::Nchw && c > 1 {
            let from = Rows {
                start: channel * h * w + y as usize * w,
                stride: h * w,
            };
            return transpose(
                isa,
                (channels, lines * w),
                (data, from),
                (
                    to,
                    Rows {
                        start: 0,
                        stride: pixel,
                    },
                ),
            );
        }
        for (i, line) in to.chunks_exact_mut(cols * pixel).take(lines).enumerate() {
            let y = y + i as isize;
            if y < 0 || y >= h as isize || inside == 0 {
                line.fill(T::zeroed());
                continue;
            }
            let (left, rest) = line.split_at_mut(before * pixel);
            let (middle, right) = rest.split_at_mut(inside * pixel);
            left.fill(T::zeroed());
            right.fill(T::zeroed());
            let start = y as usize * w + first;
            match self.layout {
                _ if c == 1 && pixel == 1 => middle.copy_from_slice(&data[start..start + inside]),
                Layout::Nhwc if pixel == c => {
                    middle.copy_from_slice(&data[start * c..][..inside * c])
                }
                Layout::Nhwc => {
                    let from = data[start * c..][..inside * c].chunks_exact(c);
                    for (to, from) in middle.chunks_exact_mut(pixel).zip(from) {
                        to[..channels].copy_from_slice(&from[channel..][..channels]);
                    }
                }
                Layout::Nchw => {
                    let from = Rows {
                        start: channel * h * w + start,
                        stride: h * w,
                    };
                    transpose(
                        isa,
                        (channels, inside),
                        (data, from),
                        (
                            middle,
                            Rows {
                                start: 0,
                                stride: pixel,
                            },
                        ),
                    );
                }
            }
        }
    }
}

/// Copies for convolutions that sweep the filter: whole images, their padding written out, channels last.
impl<T: Pod + Send + Sync> Images<'_, T> {
    /// Copies to `to` the lines and columns of all images that begin at line `y` and column `x`, `pixel` elements from a
    /// pixel to the next.
    pub(super) fn copy_all(
        &self,
        cpu: Cpu<'_>,
        [y, x]: [isize; 2],
        [lines, cols]: [usize; 2],
        pixel: usize,
        to: &mut [T],
    ) {
        for_chunks(cpu.pool, to, cols * pixel, &|i, to| {
            let window = Window {
                image: i / lines,
                y: y + (i % lines) as isize,
                lines: 1,
                x,
                cols,
                channel: 0,
                channels: self.c,
            };
            self.copy(cpu.isa, window, to, pixel);
        });
    }
}

/// `n` as a count of at most `max`.
fn clamp(n: isize, max: usize) -> usize {
    n.clamp(0, max as isize) as usize
}

/// Writes `pixels` dense pixels of `c` channels to the planes of an image, `plane` elements apart.
///
/// # Safety
/// `to` is valid for writes of `pixels` elements at the start of each of `c` planes.
pub(super) unsafe fn copy_to_planes<T: Pod>(
    isa: Isa,
    from: &[T],
    pixels: usize,
    c: usize,
    to: *mut T,
    plane: usize,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        transpose_to(
            isa,
            (pixels, c),
            (
                from,
                Rows {
                    start: 0,
                    stride: c,
                },
            ),
            to,
            plane,
        )
    }
}
