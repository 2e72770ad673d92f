//! Operators of single elements: Map, Filter, Enumerate, Zip.

use super::Stage;
use crate::error::DataError;

/// Calls a function with each element.
pub struct Map<S, F> {
    before: S,
    function: F,
}

impl<S, F> Map<S, F> {
    pub(super) fn new(before: S, function: F) -> Map<S, F> {
        Map { before, function }
    }
}

impl<S: Stage, U, F: FnMut(S::Item) -> Result<U, DataError>> Stage for Map<S, F> {
    type Item = U;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<U>, DataError> {
        self.before.next()?.map(&mut self.function).transpose()
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        self.before.pass(count)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        self.before.length()
    }
}

/// Keeps some elements.
pub struct Filter<S, F> {
    before: S,
    function: F,
}

impl<S, F> Filter<S, F> {
    pub(super) fn new(before: S, function: F) -> Filter<S, F> {
        Filter { before, function }
    }
}

impl<S: Stage, F: FnMut(&S::Item) -> bool> Stage for Filter<S, F> {
    type Item = S::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        while let Some(item) = self.before.next()? {
            if (self.function)(&item) {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }
}

/// Elements with their numbers, from 0 in each epoch.
pub struct Enumerate<S> {
    before: S,
    next: u64,
}

impl<S> Enumerate<S> {
    pub(super) fn new(before: S) -> Enumerate<S> {
        Enumerate { before, next: 0 }
    }
}

impl<S: Stage> Stage for Enumerate<S> {
    type Item = (u64, S::Item);

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.next = 0;
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<(u64, S::Item)>, DataError> {
        let Some(item) = self.before.next()? else {
            return Ok(None);
        };
        self.next += 1;
        Ok(Some((self.next - 1, item)))
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let passed = self.before.pass(count)?;
        self.next += passed;
        Ok(passed)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        self.before.length()
    }
}

/// Pairs of elements of two stages.
pub struct Zip<S, T> {
    first: S,
    second: T,
}

impl<S, T> Zip<S, T> {
    pub(super) fn new(first: S, second: T) -> Zip<S, T> {
        Zip { first, second }
    }
}

impl<S: Stage, T: Stage> Stage for Zip<S, T> {
    type Item = (S::Item, T::Item);

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.first.start(epoch)?;
        self.second.start(epoch)
    }

    fn next(&mut self) -> Result<Option<(S::Item, T::Item)>, DataError> {
        let Some(first) = self.first.next()? else {
            return Ok(None);
        };
        Ok(self.second.next()?.map(|second| (first, second)))
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let passed = self.first.pass(count)?;
        self.second.pass(passed)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        let (first, second) = (self.first.length()?, self.second.length()?);
        Ok(first.zip(second).map(|(a, b)| a.min(b)))
    }
}
