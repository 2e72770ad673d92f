//! Stage: a source or an operator of a pipeline.

use crate::error::DataError;

/// A source or an operator.
pub trait Stage {
    /// Its elements.
    type Item;

    /// Starts an epoch: the first element comes next. It is called before the first element.
    ///
    /// # Errors
    /// A source cannot be opened.
    fn start(&mut self, epoch: u64) -> Result<(), DataError>;

    /// The next element; `None` at the end.
    ///
    /// # Errors
    /// An element cannot be read or made.
    fn next(&mut self) -> Result<Option<Self::Item>, DataError>;

    /// Passes over so many elements, and returns how many there were. A stage that makes each element of one before it
    /// passes over those, and makes none.
    ///
    /// # Errors
    /// As [`Stage::next`].
    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        for passed in 0..count {
            if self.next()?.is_none() {
                return Ok(passed);
            }
        }
        Ok(count)
    }
}
