//! Filters of forward convolutions, and their packed form.

use super::ConvGeometry;

/// A filter, with its packed form where it has been made before.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a, T> {
    /// As [`ConvGeometry`] says.
    pub taps: &'a [T],
    /// The taps as packed by [`conv2d_pack`](super::conv2d_pack), in the form of
    /// [`conv2d_packing`](super::conv2d_packing).
    pub packed: Option<&'a [T]>,
}

impl<'a, T> From<&'a [T]> for Filter<'a, T> {
    fn from(taps: &'a [T]) -> Self {
        Filter { taps, packed: None }
    }
}

/// The packed form of a filter: panels as wide as a register tile, of its taps or of their values at the points of a
/// transform. The same filter, on the same machine, has more than one where batches differ in size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Lines, columns, and the channels of both sides.
    filter: [usize; 4],
    /// Points in lines and in columns; none of taps.
    points: [usize; 2],
    width: usize,
    len: usize,
}

impl Packing {
    pub(super) fn new(g: &ConvGeometry, points: [usize; 2], width: usize, len: usize) -> Self {
        Packing {
            filter: [g.k_h, g.k_w, g.in_c, g.out_c],
            points,
            width,
            len,
        }
    }

    /// Returns its number of elements.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }
}
