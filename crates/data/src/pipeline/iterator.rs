//! Pipeline: a chain of stages, as an iterator with a position.

use super::stage::Stage;
use crate::error::DataError;

/// A chain of stages. Stages are built by its methods.
pub struct Pipeline<S> {
    pub(super) stage: S,
    started: bool,
    position: u64,
    failed: bool,
}

impl<S: Stage> Pipeline<S> {
    /// A pipeline of a stage of the program's own.
    pub fn new(stage: S) -> Pipeline<S> {
        Pipeline {
            stage,
            started: false,
            position: 0,
            failed: false,
        }
    }

    /// Number of elements that were taken: the position of the next one.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Number of elements of an epoch. `None` if epochs differ, or if elements would have to be made to count them.
    ///
    /// ```
    /// use thalweg_data::pipeline::{Remainder, from_vec};
    ///
    /// let mut batches = from_vec(vec![1, 2, 3]).group(2, Remainder::Keep);
    /// assert_eq!(batches.length()?, Some(2));
    /// assert_eq!(from_vec(vec![1, 2, 3]).filter(|n| *n > 1).length()?, None);
    /// # Ok::<(), thalweg_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// A source cannot be read.
    pub fn length(&mut self) -> Result<Option<u64>, DataError> {
        self.stage.length()
    }

    /// Starts anew at a [position](Pipeline::position): the elements before it are passed over. Maps do not run for them;
    /// sources, filters and shuffles do.
    ///
    /// # Errors
    /// Those of the stages before.
    pub fn seek(&mut self, position: u64) -> Result<(), DataError> {
        self.stage.start(0)?;
        self.started = true;
        self.failed = false;
        self.position = self.stage.pass(position)?;
        Ok(())
    }
}

impl<S: Stage> Iterator for Pipeline<S> {
    type Item = Result<S::Item, DataError>;

    /// The next element. After an error there are none, until [`Pipeline::seek`].
    fn next(&mut self) -> Option<Result<S::Item, DataError>> {
        if self.failed {
            return None;
        }
        if !self.started {
            self.started = true;
            if let Err(error) = self.stage.start(0) {
                self.failed = true;
                return Some(Err(error));
            }
        }
        match self.stage.next() {
            Ok(Some(item)) => {
                self.position += 1;
                Some(Ok(item))
            }
            Ok(None) => None,
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}
