//! Input channels with several filters: their pixels are repeated, so that there are as many channels as filters.

use crate::conv::ConvGeometry;

/// Filters of an input channel.
pub(super) fn filters(g: &ConvGeometry) -> usize {
    g.out_c / g.in_c.max(1)
}

/// Repeats each number, once for each filter.
pub(super) fn repeat<T: Copy>(numbers: &[T], filters: usize, to: &mut [T]) {
    for (to, &x) in to.chunks_exact_mut(filters).zip(numbers) {
        to.fill(x);
    }
}
