//! Window: overlapping vectors of elements.

use std::collections::VecDeque;

use super::{Remainder, Stage};
use crate::error::DataError;

/// Vectors of elements that may overlap.
pub struct Window<S: Stage> {
    before: S,
    size: usize,
    shift: usize,
    stride: usize,
    remainder: Remainder,
    /// The next elements.
    buffer: VecDeque<S::Item>,
}

impl<S: Stage<Item: Clone>> Window<S> {
    pub(super) fn new(
        before: S,
        [size, shift, stride]: [usize; 3],
        remainder: Remainder,
    ) -> Window<S> {
        Window {
            before,
            size,
            shift,
            stride,
            remainder,
            buffer: VecDeque::new(),
        }
    }

    /// Number of elements from the first to the last of a window.
    fn span(&self) -> usize {
        let gaps = (self.size - 1).saturating_mul(self.stride);
        gaps.saturating_add(1)
    }

    /// Number of windows of so many elements.
    fn windows(&self, elements: u64) -> u64 {
        let shift = self.shift as u64;
        match self.remainder {
            Remainder::Keep => elements.div_ceil(shift),
            Remainder::Drop => match elements.checked_sub(self.span() as u64) {
                Some(more) => more / shift + 1,
                None => 0,
            },
        }
    }

    /// Reads the elements of the next window; `false` if there is none.
    fn fill(&mut self) -> Result<bool, DataError> {
        while self.buffer.len() < self.span() {
            match self.before.next()? {
                Some(item) => self.buffer.push_back(item),
                None => break,
            }
        }
        Ok(self.windows(self.buffer.len() as u64) > 0)
    }

    /// Passes over elements, and returns how many there were.
    fn shift(&mut self, elements: u64) -> Result<u64, DataError> {
        let own = elements.min(self.buffer.len() as u64);
        self.buffer.drain(..own as usize);
        Ok(own + self.before.pass(elements - own)?)
    }
}

impl<S: Stage<Item: Clone>> Stage for Window<S> {
    type Item = Vec<S::Item>;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        if self.size == 0 || self.shift == 0 || self.stride == 0 {
            let reason = "a window needs a size, a shift and a stride of 1 or more";
            return Err(DataError::Options(reason.to_owned()));
        }
        self.buffer.clear();
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<Vec<S::Item>>, DataError> {
        if !self.fill()? {
            self.buffer.clear();
            return Ok(None);
        }
        let window = self.buffer.iter().step_by(self.stride).take(self.size);
        let window = window.cloned().collect();
        self.shift(self.shift as u64)?;
        Ok(Some(window))
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let Some(before_last) = count.checked_sub(1) else {
            return Ok(0);
        };
        let elements = before_last.saturating_mul(self.shift as u64);
        let found = self.shift(elements)?;
        if found == elements && self.fill()? {
            self.shift(self.shift as u64)?;
            return Ok(count);
        }
        let left = std::mem::take(&mut self.buffer).len() as u64;
        Ok(self.windows(found + left))
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        if self.size == 0 || self.shift == 0 || self.stride == 0 {
            return Ok(None);
        }
        Ok(self.before.length()?.map(|n| self.windows(n)))
    }
}
