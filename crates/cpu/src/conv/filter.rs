//! A filter as a forward convolution takes it.

use super::ConvGeometry;

/// A filter, and, where it has been made before, what a convolution reads in its place.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a, T> {
    /// As [`ConvGeometry`] says.
    pub taps: &'a [T],
    /// What [`conv2d_pack`](super::conv2d_pack) has made of these taps, in the way of
    /// [`conv2d_packing`](super::conv2d_packing).
    pub packed: Option<&'a [T]>,
}

impl<'a, T> From<&'a [T]> for Filter<'a, T> {
    fn from(taps: &'a [T]) -> Self {
        Filter { taps, packed: None }
    }
}

/// What a filter becomes before it is multiplied: panels as wide as a register tile, of its taps or of what they are at
/// the points of a transform. The same filter, on the same machine, has more than one where batches differ in size.
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

    /// How many numbers it has.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }
}
