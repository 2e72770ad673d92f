//! Convolutions with a filter that does not fit the second-level cache: they sweep the filter in blocks.
//!
//! The padded images are copied once, channels last, and the inner dimension is cut into blocks. A task computes some
//! lines of pixels and some panels of the filter: it goes from block to block and from panel to panel, so that a block
//! of a panel stays near while it is multiplied with all pixels of the task.

use super::band::Images;
use super::{ConvGeometry, Real};
use crate::micro_kernel::{Ahead, Tile, Tiles};
use crate::scratch::{Disjoint, part};
use crate::{Cpu, Epilogue, Layout};

/// The largest filter, in bytes, that is read again for every few pixels: the second-level cache has most of it.
const MAX_RESIDENT_BYTES: usize = 3 << 19;
/// The longest block of the inner dimension: a panel's block takes a small part of the second-level cache.
const MAX_INNER: usize = 512;
/// Approximate number of pixels of a task; of the filter's gradient, those that are summed before the next.
pub(super) const TASK_PIXELS: usize = 224;
/// Minimum number of tasks for each thread.
const MIN_TASKS_PER_THREAD: usize = 4;

/// `true` if a filter of so many numbers is swept.
pub(super) fn is_cache_blocked<T>(filter: usize) -> bool {
    filter * size_of::<T>() > MAX_RESIDENT_BYTES
}

/// The input of a swept convolution, as it is read: padded, or, where no tap lies outside and channels are last, where it
/// lies.
#[derive(Clone, Copy)]
pub(super) struct Padded {
    pub direct: bool,
    /// Of an image.
    pub lines: usize,
    pub cols: usize,
}

impl Padded {
    pub(super) fn new(g: &ConvGeometry) -> Self {
        let direct = g.layout == Layout::Nhwc && g.is_inside();
        let (lines, cols) = match direct {
            true => (g.in_h, g.in_w),
            false => (g.lines_seen(g.out_h), g.cols_seen()),
        };
        Padded {
            direct,
            lines,
            cols,
        }
    }

    /// Numbers of the copy.
    pub(super) fn len(&self, g: &ConvGeometry) -> usize {
        match self.direct {
            true => 0,
            false => g.batch * self.lines * self.cols * g.in_c,
        }
    }

    /// The input, copied where it must be.
    pub(super) fn read<'a, T: Real>(
        &self,
        cpu: Cpu<'_>,
        g: &ConvGeometry,
        images: Images<'a, T>,
        copy: &'a mut [T],
    ) -> &'a [T] {
        if self.direct {
            return images.data;
        }
        let from = [g.pad_top, g.pad_left].map(|pad| -(pad as isize));
        images.copy_all(cpu, from, [self.lines, self.cols], g.in_c, copy);
        copy
    }

    /// Returns the offsets of the first tap of each output pixel.
    pub(super) fn seen(&self, g: &ConvGeometry) -> Lines {
        Lines {
            start: 0,
            image: self.lines * self.cols * g.in_c,
            line: g.stride[0] * self.cols * g.in_c,
            pixel: g.stride[1] * g.in_c,
        }
    }
}

/// Offsets of lines of pixels, by image and line, in elements.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub start: usize,
    pub image: usize,
    pub line: usize,
    /// From a pixel to the next.
    pub pixel: usize,
}

impl Lines {
    pub(super) fn at(&self, image: usize, line: usize, pixel: usize) -> usize {
        self.start + image * self.image + line * self.line + pixel * self.pixel
    }
}

/// Sums over the taps of a filter, for all pixels of a batch of images.
pub(super) struct CacheBlocked<'a, T: 'static> {
    pub tiles: Tiles<T>,
    pub images: usize,
    /// Of an image.
    pub lines: usize,
    /// Of a line.
    pub pixels: usize,
    /// The input, with the offset of each pixel's first tap.
    pub seen: (&'a [T], Lines),
    /// The offset of each stretch of the inner dimension from there.
    pub offsets: &'a [usize],
    /// The length of each stretch.
    pub len: usize,
    /// The filter in panels, each of all stretches.
    pub packed: &'a [T],
    pub panels: usize,
    /// Channels of a pixel of the result.
    pub channels: usize,
    pub to: (&'a Disjoint<'a, T>, Lines),
    /// Its lists have whole panels.
    pub epilogue: Epilogue<'a, T>,
}

/// A block of the inner dimension.
#[derive(Clone, Copy)]
struct InnerBlock {
    /// The stretches it is of, and how many they are.
    first: usize,
    count: usize,
    /// The part of each stretch.
    at: usize,
    len: usize,
}

impl<T: Real> CacheBlocked<'_, T> {
    /// Returns the number of blocks: parts of a stretch, or some stretches each.
    fn blocks(&self) -> usize {
        // Where there are no stretches the sums are zero, and stored once.
        if self.len > MAX_INNER {
            return (self.offsets.len() * self.len.div_ceil(MAX_INNER)).max(1);
        }
        let together = MAX_INNER / self.len.max(1);
        self.offsets.len().div_ceil(together).max(1)
    }

    fn block(&self, i: usize) -> InnerBlock {
        if self.len > MAX_INNER && !self.offsets.is_empty() {
            let pieces = self.len.div_ceil(MAX_INNER);
            let (at, len) = part(self.len, pieces, i % pieces);
            return InnerBlock {
                first: i / pieces,
                count: 1,
                at,
                len,
            };
        }
        let (first, count) = part(self.offsets.len(), self.blocks(), i);
        InnerBlock {
            first,
            count,
            at: 0,
            len: self.len,
        }
    }

    /// Computes all pixels.
    pub(super) fn run(&self, cpu: Cpu<'_>) {
        let all = self.images * self.lines;
        let line_tasks = (all * self.pixels)
            .div_ceil(TASK_PIXELS)
            .clamp(1, all.max(1));
        let wanted = MIN_TASKS_PER_THREAD * cpu.pool.threads();
        let panel_tasks = wanted.div_ceil(line_tasks).clamp(1, self.panels);
        cpu.pool.parallel_for(line_tasks * panel_tasks, &|task| {
            let lines = part(all, line_tasks, task / panel_tasks);
            let panels = part(self.panels, panel_tasks, task % panel_tasks);
            self.task(lines, panels);
        });
    }

    fn task(&self, (line, lines): (usize, usize), (panel, panels): (usize, usize)) {
        let blocks = self.blocks();
        for i in 0..blocks {
            let block = self.block(i);
            for panel in panel..panel + panels {
                for line in line..line + lines {
                    let place = [line / self.lines, line % self.lines];
                    self.line(place, panel, block, i > 0, i + 1 == blocks);
                }
            }
        }
    }

    /// Adds the products of a block to a panel of a line.
    fn line(
        &self,
        [image, line]: [usize; 2],
        panel: usize,
        block: InnerBlock,
        add: bool,
        last: bool,
    ) {
        let width = self.tiles.cols();
        let (col, inner) = (panel * width, self.offsets.len() * self.len);
        let b = (panel * inner + block.first * self.len + block.at) * width;
        let row_tiles = self.pixels.div_ceil(self.tiles.rows());
        let epilogue = match last {
            true => self.epilogue.channels(col..),
            false => Epilogue::NONE,
        };
        for tile in 0..row_tiles {
            let (x, rows) = part(self.pixels, row_tiles, tile);
            let tile = Tile {
                a: self.seen.0[self.seen.1.at(image, line, x) + block.at..].as_ptr(),
                offsets: &self.offsets[block.first..][..block.count],
                len: block.len,
                a_row: self.seen.1.pixel,
                a_col: 1,
                b: self.packed[b..].as_ptr(),
                b_row: width,
                c: (self.to.0).pointer(self.to.1.at(image, line, x) + col),
                c_row: self.to.1.pixel,
                cols: width.min(self.channels - col),
                add,
                epilogue,
                ahead: Ahead::NONE,
            };
            // SAFETY: the pixels' taps lie in `seen`, the panel has `inner` rows, and the pixels are this task's.
            unsafe { self.tiles.run(rows, &tile) };
        }
    }
}
