//! Buckets: vectors of elements of like length.

use super::{Remainder, Stage};
use crate::error::DataError;

/// Vectors of elements of like length.
pub struct Buckets<S: Stage, F> {
    before: S,
    length: F,
    boundaries: Vec<usize>,
    sizes: Vec<usize>,
    remainder: Remainder,
    /// Elements of each bucket that wait for others.
    waiting: Vec<Vec<S::Item>>,
    /// `true` once the stage before has ended.
    ended: bool,
}

impl<S: Stage, F> Buckets<S, F> {
    pub(super) fn new(
        before: S,
        length: F,
        boundaries: Vec<usize>,
        sizes: Vec<usize>,
        remainder: Remainder,
    ) -> Buckets<S, F> {
        Buckets {
            before,
            length,
            boundaries,
            sizes,
            remainder,
            waiting: Vec::new(),
            ended: false,
        }
    }
}

impl<S: Stage, F: FnMut(&S::Item) -> usize> Stage for Buckets<S, F> {
    type Item = Vec<S::Item>;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        if self.sizes.len() != self.boundaries.len() + 1 || !self.boundaries.is_sorted() {
            let reason = format!(
                "buckets with the boundaries {:?} and the sizes {:?}: give boundaries in order, and one size more",
                self.boundaries, self.sizes
            );
            return Err(DataError::Options(reason));
        }
        if self.sizes.contains(&0) {
            return Err(DataError::ZeroBatch);
        }
        self.waiting.clear();
        self.waiting.resize_with(self.sizes.len(), Vec::new);
        self.ended = false;
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<Vec<S::Item>>, DataError> {
        while !self.ended {
            let Some(item) = self.before.next()? else {
                self.ended = true;
                break;
            };
            let length = (self.length)(&item);
            let bucket = self.boundaries.partition_point(|b| *b <= length);
            self.waiting[bucket].push(item);
            if self.waiting[bucket].len() == self.sizes[bucket] {
                return Ok(Some(std::mem::take(&mut self.waiting[bucket])));
            }
        }
        if self.remainder == Remainder::Drop {
            return Ok(None);
        }
        let rest = self.waiting.iter_mut().find(|bucket| !bucket.is_empty());
        Ok(rest.map(std::mem::take))
    }
}
