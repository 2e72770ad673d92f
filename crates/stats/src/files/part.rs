//! Parts of files: the rows that a rank reads, as blocks.

use std::path::Path;

use thalweg_tensor::Tensor;

use crate::error::StatsError;

/// A rank's share of the rows of files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub rank: usize,
    pub ranks: usize,
}

/// Consecutive rows of a file, `[n, width]`.
pub(super) type Matrix = Tensor;

/// A file, and the rows that are read of it.
pub(super) struct Part<'a> {
    pub path: &'a Path,
    pub width: usize,
    pub block_rows: usize,
    pub share: Share,
}

impl Part<'_> {
    /// `true` for the rows of this rank.
    pub(super) fn has(&self, row: u64) -> bool {
        row % self.share.ranks as u64 == self.share.rank as u64
    }

    /// An error in the file.
    pub(super) fn error(&self, reason: impl std::fmt::Display) -> StatsError {
        error_in(self.path, reason)
    }
}

/// An error in a file.
pub(super) fn error_in(path: &Path, reason: impl std::fmt::Display) -> StatsError {
    StatsError::Source(format!("{}: {reason}", path.display()).into())
}

/// Rows that become blocks.
pub(super) struct Blocks<'a, T> {
    pub rows: Vec<T>,
    width: usize,
    block_rows: usize,
    take: &'a mut dyn FnMut(Matrix) -> bool,
}

impl<'a, T: thalweg_tensor::Element> Blocks<'a, T> {
    pub(super) fn new(part: &Part<'_>, take: &'a mut dyn FnMut(Matrix) -> bool) -> Blocks<'a, T> {
        Blocks {
            rows: Vec::new(),
            width: part.width,
            block_rows: part.block_rows,
            take,
        }
    }

    /// Takes the block where it is full, or at the end; `false` to stop.
    pub(super) fn turn(&mut self, end: bool) -> Result<bool, StatsError> {
        let rows = self.rows.len() / self.width.max(1);
        if rows == 0 || !end && rows < self.block_rows {
            return Ok(true);
        }
        let block = Tensor::new(&[rows, self.width], &self.rows)?;
        self.rows.clear();
        Ok((self.take)(block))
    }
}
