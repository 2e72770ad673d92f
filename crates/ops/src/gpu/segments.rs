//! Sums in segments, as `struct Segments` of `kernels/thalweg.cuh`.

use thalweg_device::gpu::{Launch, THREADS};

/// Numbers of blocks and threads that fill a GPU.
const ENOUGH_BLOCKS: usize = 1024;
const ENOUGH_THREADS: usize = 1 << 16;

/// Minimum number of terms of a segment, for a block and for a thread.
const BLOCK_SHARE: usize = 2048;
const THREAD_SHARE: usize = 32;

/// Maximum number of blocks of a grid.
const MOST_BLOCKS: usize = 1 << 16;

/// Split of `outputs` sums of `count` terms each, which depends on these numbers alone.
#[derive(Clone, Copy)]
pub(super) struct Segments {
    outputs: usize,
    count: usize,
    segments: usize,
    each: usize,
    across: bool,
}

impl Segments {
    /// If `across`, the terms of a sum are adjacent in memory, otherwise the sums are.
    pub(super) fn new(outputs: usize, count: usize, across: bool) -> Segments {
        let (share, enough) = match across {
            true => (BLOCK_SHARE, ENOUGH_BLOCKS),
            false => (THREAD_SHARE, ENOUGH_THREADS),
        };
        let most = (enough / outputs.max(1)).max(1);
        let each = count.div_ceil((count / share).clamp(1, most)).max(1);
        Segments {
            outputs,
            count,
            segments: count.div_ceil(each),
            each,
            across,
        }
    }

    /// Bytes of the segments' results, of `each` bytes.
    pub(super) fn bytes(&self, each: usize) -> usize {
        (self.outputs * self.segments * each).next_multiple_of(64)
    }

    /// As `struct Segments` of the kernels.
    pub(super) fn lay_out(&self) -> [usize; 5] {
        [
            self.outputs,
            self.count,
            self.segments,
            self.each,
            usize::from(self.across),
        ]
    }

    /// Launch that adds up each segment.
    pub(super) fn first(&self, launch: Launch) -> Launch {
        let units = self.outputs * self.segments;
        let blocks = match self.across {
            true => units,
            false => units.div_ceil(THREADS as usize),
        };
        Launch {
            blocks: blocks.clamp(1, MOST_BLOCKS) as u32,
            ..launch
        }
    }

    /// Launch that joins the segments' results.
    pub(super) fn together(&self, launch: Launch) -> Launch {
        Launch {
            blocks: self.outputs.clamp(1, MOST_BLOCKS) as u32,
            ..launch
        }
    }
}
