//! Memory layout of a reduction, and its division into tasks: by the shape only, so that every sum has the same order
//! on any number of threads.

use smallvec::SmallVec;
use thalweg_tensor::shape::elements;

use crate::support::elementwise::CHUNK;

/// Maximum number of columns that a task accumulates at a time; their accumulators stay in the L1 cache.
pub(super) const TILE: usize = 1024;
/// Rows of fewer elements are reduced in a loop of their own.
pub(super) const SHORT_ROW: usize = 8;
/// Maximum number of segments of one output's elements.
const MAX_SEGMENTS: usize = 64;
/// Minimum number of rows of a piece.
const MIN_PIECE_ROWS: usize = 64;

/// Dimensions with their steps, outermost first.
#[derive(Clone, Debug, Default)]
struct DimStrides(SmallVec<[(usize, usize); 3]>);

impl DimStrides {
    fn count(&self) -> usize {
        self.0.iter().map(|(len, _)| len).product()
    }

    /// Offset of index `i`.
    #[inline(always)]
    fn at(&self, i: usize) -> usize {
        match self.0[..] {
            [] => 0,
            [(_, step)] => i * step,
            _ => {
                let (mut i, mut at) = (i, 0);
                for &(len, step) in self.0.iter().rev() {
                    at += i % len * step;
                    i /= len;
                }
                at
            }
        }
    }
}

/// A reduction after neighbouring dimensions are merged: `kept` outputs of `columns` elements each, every one from
/// `slabs` contiguous matrices of `rows` by `columns`.
#[derive(Clone, Debug)]
pub(super) struct ReductionLayout {
    kept: DimStrides,
    slabs: DimStrides,
    /// Number of outputs, not counting columns.
    pub outer: usize,
    /// Number of rows of a slab.
    pub rows: usize,
    /// Number of elements of a row, each with its own output.
    pub columns: usize,
    /// Number of rows of a piece, which one task reads from one slab at a time.
    pub piece: usize,
    /// Number of pieces of a slab.
    pub pieces: usize,
    /// Number of pieces of all slabs of one output.
    pub all_pieces: usize,
    /// Number of pieces of a segment.
    pub per_segment: usize,
    /// Number of segments of each output, which are reduced separately and then combined.
    pub segments: usize,
    /// Number of tiles of a row.
    pub tiles: usize,
    /// Number of outputs of a task.
    pub group: usize,
}

impl ReductionLayout {
    /// Layout of a reduction of dimensions `reduced` of a tensor with dimensions `dims`, none of them 0.
    pub(super) fn new(dims: &[usize], reduced: &[bool]) -> ReductionLayout {
        // Neighbouring dimensions of one kind are merged: (length, reduced, step).
        let mut groups: SmallVec<[(usize, bool, usize); 6]> = SmallVec::new();
        let mut step = elements(dims);
        for (&len, &reduced) in dims.iter().zip(reduced) {
            step /= len.max(1);
            match groups.last_mut() {
                _ if len == 1 => {}
                Some(last) if last.1 == reduced => {
                    last.0 *= len;
                    last.2 = step;
                }
                _ => groups.push((len, reduced, step)),
            }
        }
        let mut innermost = |kind: bool| match groups.last() {
            Some(&(len, reduced, _)) if reduced == kind => {
                groups.pop();
                len
            }
            _ => 1,
        };
        let columns = innermost(false);
        let rows = innermost(true);
        let of = |kind: bool| {
            let own = groups.iter().filter(|g| g.1 == kind);
            DimStrides(own.map(|g| (g.0, g.2)).collect())
        };
        let (kept, slabs) = (of(false), of(true));

        let outer = kept.count();
        let tiles = columns.div_ceil(TILE);
        let width = columns.min(TILE);
        let piece = (CHUNK / width).max(MIN_PIECE_ROWS).min(rows);
        let pieces = rows.div_ceil(piece);
        let all_pieces = slabs.count() * pieces;
        let segments = (MAX_SEGMENTS / outer.saturating_mul(tiles)).max(1);
        let per_segment = all_pieces
            .div_ceil(segments)
            .max(CHUNK / (piece * width).max(1))
            .max(1);
        let segments = all_pieces.div_ceil(per_segment);
        let work = per_segment.min(all_pieces).saturating_mul(piece * width);
        ReductionLayout {
            kept,
            slabs,
            outer,
            rows,
            columns,
            piece,
            pieces,
            all_pieces,
            per_segment,
            segments,
            tiles,
            group: (CHUNK / work.max(1)).clamp(1, outer.max(1)),
        }
    }

    /// `true` if each output is that of one row, and the row is short.
    #[inline(always)]
    pub(super) fn has_short_rows(&self) -> bool {
        self.columns == 1 && self.all_pieces == 1 && self.rows < SHORT_ROW
    }

    /// Number of outputs.
    pub(super) fn outputs(&self) -> usize {
        self.outer * self.columns
    }

    /// Number of tasks.
    pub(super) fn tasks(&self) -> usize {
        self.segments * self.tiles * self.outer.div_ceil(self.group)
    }

    /// Offset of the slabs of output `i`.
    #[inline(always)]
    pub(super) fn output(&self, i: usize) -> usize {
        self.kept.at(i)
    }

    /// Offset of slab `i` from the first slab of its output.
    #[inline(always)]
    pub(super) fn slab(&self, i: usize) -> usize {
        self.slabs.at(i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_taken_together() {
        let l = ReductionLayout::new(&[2, 1, 3, 4, 5], &[false, true, false, true, true]);
        assert_eq!((l.outer, l.rows, l.columns), (6, 20, 1));
        assert_eq!((l.output(2), l.slab(0), l.all_pieces), (40, 0, 1));
        let l = ReductionLayout::new(&[2, 3, 4, 5], &[true, true, false, false]);
        assert_eq!((l.outer, l.rows, l.columns), (1, 6, 20));
    }

    #[test]
    fn alternate_axes_are_walked_with_steps() {
        let l = ReductionLayout::new(&[2, 3, 4, 5], &[true, false, true, false]);
        assert_eq!((l.outer, l.rows, l.columns), (3, 4, 5));
        assert_eq!((l.output(2), l.slab(1)), (40, 60));
    }

    #[test]
    fn every_row_is_in_one_piece_and_every_piece_in_one_segment() {
        for rows in [1, 63, 64, 65, 16_384, 16_385, 5_000_000] {
            for columns in [1, 3, 1024, 1025] {
                let l = ReductionLayout::new(&[7, rows, columns], &[false, true, false]);
                assert!(l.pieces * l.piece >= rows && (l.pieces - 1) * l.piece < rows);
                assert!(l.segments * l.per_segment >= l.all_pieces);
                assert!((l.segments - 1) * l.per_segment < l.all_pieces);
            }
        }
    }
}
