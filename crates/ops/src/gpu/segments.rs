//! Two-pass sums on a GPU: the terms of each sum are split into segments for blocks or threads, and the partial sums
//! are added. `struct Segments` of `kernels/thalweg.cuh` has the same fields.

use thalweg_device::gpu::{Launch, THREADS};

/// Numbers of blocks and threads that fill a GPU.
const TARGET_BLOCKS: usize = 1024;
const TARGET_THREADS: usize = 1 << 16;

/// Minimum number of terms of a segment, for a block and for a thread.
const MIN_PER_BLOCK: usize = 2048;
const MIN_PER_THREAD: usize = 32;

/// Maximum number of blocks of a grid.
const MAX_BLOCKS: usize = 1 << 16;

/// Split of `outputs` sums of `count` terms each, which depends on these numbers alone.
#[derive(Clone, Copy)]
pub(super) struct SumSegments {
    outputs: usize,
    count: usize,
    segments: usize,
    each: usize,
    across: bool,
    /// Sums that a thread takes at a time.
    lanes: usize,
}

impl SumSegments {
    /// If `across`, the terms of a sum are adjacent in memory, otherwise the sums are.
    pub(super) fn new(outputs: usize, count: usize, across: bool) -> SumSegments {
        let (share, enough) = match across {
            true => (MIN_PER_BLOCK, TARGET_BLOCKS),
            false => (MIN_PER_THREAD, TARGET_THREADS),
        };
        let max_segments = (enough / outputs.max(1)).max(1);
        let each = count
            .div_ceil((count / share).clamp(1, max_segments))
            .max(1);
        SumSegments {
            outputs,
            count,
            segments: count.div_ceil(each),
            each,
            across,
            lanes: 1,
        }
    }

    /// The same where a thread takes `lanes` adjacent sums at a time.
    pub(super) fn packed(outputs: usize, count: usize, lanes: usize) -> SumSegments {
        let of_groups = SumSegments::new(outputs / lanes, count, false);
        SumSegments {
            outputs,
            lanes,
            ..of_groups
        }
    }

    /// Bytes of the segments' results, of `each` bytes.
    pub(super) fn bytes(&self, each: usize) -> usize {
        (self.outputs * self.segments * each).next_multiple_of(64)
    }

    /// As `struct Segments` of the kernels.
    pub(super) fn to_struct(self) -> [usize; 5] {
        [
            self.outputs,
            self.count,
            self.segments,
            self.each,
            usize::from(self.across),
        ]
    }

    /// Launch that adds up each segment.
    pub(super) fn partial_sums(&self, launch: Launch) -> Launch {
        let units = self.outputs * self.segments;
        let blocks = match self.across {
            true => units,
            false => (units / self.lanes).div_ceil(THREADS as usize),
        };
        Launch {
            blocks: blocks.clamp(1, MAX_BLOCKS) as u32,
            ..launch
        }
    }

    /// Launch that joins the segments' results.
    pub(super) fn join(&self, launch: Launch) -> Launch {
        Launch {
            blocks: self.outputs.clamp(1, MAX_BLOCKS) as u32,
            ..launch
        }
    }
}
