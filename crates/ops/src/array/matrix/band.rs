//! Diagonals of a matrix, packed as the rows of a smaller one.

use thalweg_graph::{Attrs, InferError};

use crate::support::shape_inputs::invalid_value;

/// Diagonals `low..=high` of a matrix: diagonal k has the elements with `column - row = k`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    pub(super) low: i64,
    pub(super) high: i64,
    /// Left alignment of the diagonals above the main one, and of those below.
    left: [bool; 2],
}

impl Band {
    /// Band of a node: from the value of input `at`, or the main diagonal if the op has no such input. `None` if the
    /// value is not known.
    pub(super) fn of(
        attrs: &Attrs,
        at: Option<usize>,
        value: Option<Vec<i64>>,
    ) -> Result<Option<Band>, InferError> {
        let left = match attrs.str("align") {
            "LEFT_RIGHT" => [true, false],
            "RIGHT_LEFT" => [false, true],
            "RIGHT_RIGHT" => [false, false],
            // Older ops have no attribute: left-aligned.
            _ => [true, true],
        };
        let Some(at) = at else {
            return Ok(Some(Band {
                low: 0,
                high: 0,
                left,
            }));
        };
        let (low, high) = match value.as_deref() {
            None => return Ok(None),
            Some(&[k]) => (k, k),
            Some(&[low, high]) => (low, high),
            Some(other) => {
                let reason = format!("{} diagonals: give one, or the first and last", other.len());
                return Err(invalid_value(at, reason));
            }
        };
        if low > high {
            return Err(invalid_value(
                at,
                format!("the first diagonal, {low}, is behind the last, {high}"),
            ));
        }
        Ok(Some(Band { low, high, left }))
    }

    /// Number of diagonals.
    pub(super) fn count(self) -> i64 {
        self.high - self.low + 1
    }

    /// Length of the longest diagonal of a matrix of this size.
    pub(super) fn longest(self, rows: i64, columns: i64) -> i64 {
        (rows + self.high.min(0))
            .min(columns - self.low.max(0))
            .max(0)
    }

    /// Length of diagonal k, and its begin in its row of `width` elements.
    fn row(self, k: i64, [rows, columns]: [i64; 2], width: i64) -> (i64, i64) {
        let len = (rows + k.min(0)).min(columns - k.max(0)).max(0);
        let left = k >= 0 && self.left[0] || k <= 0 && self.left[1];
        (len, if left { 0 } else { width - len })
    }

    /// Position of element (row, column) of the matrix in the packed rows of `width` elements; `None` if it is on
    /// none of the diagonals.
    pub(super) fn place(self, row: i64, column: i64, size: [i64; 2], width: i64) -> Option<usize> {
        let k = column - row;
        if k < self.low || k > self.high {
            return None;
        }
        let (_, begin) = self.row(k, size, width);
        let along = row.min(column) + begin;
        usize::try_from((self.high - k) * width + along).ok()
    }

    /// Element of the matrix at position `along` of packed row `row`, and the number of elements of the diagonal from it on;
    /// `None` for padding.
    pub(super) fn element(
        self,
        row: i64,
        along: i64,
        size: [i64; 2],
        width: i64,
    ) -> Option<(usize, usize)> {
        let k = self.high - row;
        let (len, begin) = self.row(k, size, width);
        let along = along - begin;
        if along < 0 || along >= len {
            return None;
        }
        let at = (along - k.min(0)) * size[1] + along + k.max(0);
        Some((usize::try_from(at).ok()?, (len - along) as usize))
    }

    /// Fails unless a matrix of this size has these diagonals.
    pub(super) fn within(self, at: usize, rows: i64, columns: i64) -> Result<(), InferError> {
        let is = |k: i64| k == 0 || -rows < k && k < columns;
        match is(self.low) && is(self.high) {
            true => Ok(()),
            false => Err(invalid_value(
                at,
                format!(
                    "diagonals {} to {} are not all within a matrix of {rows} by {columns}",
                    self.low, self.high
                ),
            )),
        }
    }
}
