//! The channels of a tensor, and how sums over them are cut into tasks.

use crate::scratch::Scratch;

/// A tensor as `[before, channels, after]`.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    /// The product of the dimensions before the channels.
    pub before: usize,
    /// The number of channels.
    pub channels: usize,
    /// The product of the dimensions behind the channels.
    pub after: usize,
}

/// Elements of a block of rows or of a piece of a line.
pub(super) const BLOCK_ELEMENTS: usize = 8192;

/// Minimum number of rows of a block, so that adding up blocks costs little.
pub(super) const MIN_BLOCK_ROWS: usize = 32;

/// Minimum number of elements of a task, where each has sums of its own for all channels.
pub(super) const MIN_TASK_ELEMENTS: usize = 1 << 16;

/// Maximum number of such tasks.
pub(super) const MAX_TASKS: usize = 64;

/// Minimum number of columns that rows are folded to, where there are fewer channels.
pub(super) const MIN_COLUMNS: usize = 64;

impl Channels {
    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.before * self.channels * self.after
    }

    /// Elements of each channel.
    pub fn count(&self) -> usize {
        self.before * self.after
    }

    /// Rows of all channels that are taken together as one, where the channels come last.
    pub(super) fn folded(&self) -> usize {
        if self.after == 1 && self.channels > 0 {
            (MIN_COLUMNS / self.channels).max(1)
        } else {
            1
        }
    }

    /// Values of each kind that elements meet: one for each channel, and for each column of a folded row.
    pub fn columns(&self) -> usize {
        self.channels * self.folded()
    }

    /// Rows of a task, where the channels come last.
    pub(super) fn rows(&self) -> usize {
        let least = (MIN_TASK_ELEMENTS / self.channels.max(1)).max(2 * MIN_BLOCK_ROWS);
        least.max(self.before.div_ceil(MAX_TASKS))
    }

    pub(super) fn tasks(&self) -> usize {
        if self.after == 1 {
            self.before.div_ceil(self.rows())
        } else {
            1
        }
    }

    /// Bytes of scratch memory that [`sums`](super::sums::sums) needs.
    pub fn scratch<const N: usize>(&self) -> usize {
        let tasks = self.tasks();
        Scratch::bytes::<[f64; N]>(tasks * self.channels)
            + Scratch::bytes::<f32>(tasks * N * self.columns())
    }
}

/// The first item of each channel, in all columns of it.
#[inline(always)]
pub(super) fn spread(columns: &mut [f32], channels: usize) {
    let (first, others) = columns.split_at_mut(channels);
    for other in others.chunks_exact_mut(channels) {
        other.copy_from_slice(first);
    }
}
