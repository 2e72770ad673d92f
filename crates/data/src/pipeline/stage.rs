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

    /// Number of elements of each epoch. `None` if epochs differ, or if elements would have to be made to count them.
    ///
    /// # Errors
    /// A source cannot be read.
    fn length(&mut self) -> Result<Option<u64>, DataError> {
        Ok(None)
    }
}

/// A stage whose type is not named.
impl<S: Stage + ?Sized> Stage for Box<S> {
    type Item = S::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        (**self).start(epoch)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        (**self).next()
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        (**self).pass(count)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        (**self).length()
    }
}
