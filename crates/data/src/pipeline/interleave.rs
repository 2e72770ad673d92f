//! Operators of several pipelines: Interleave, Concatenate.

use super::iterator::Pipeline;
use super::stage::Stage;
use crate::error::DataError;

/// Elements in turn from the pipelines that a function makes.
pub struct Interleave<S, T, F> {
    before: S,
    block: u64,
    function: F,
    epoch: u64,
    /// The pipelines that are open, each in its place in the cycle.
    open: Vec<Option<T>>,
    /// Place in the cycle, and number of elements that were taken there.
    place: usize,
    taken: u64,
    /// `true` once the stage before has ended.
    ended: bool,
}

impl<S, T, F> Interleave<S, T, F>
where
    S: Stage,
    T: Stage,
    F: FnMut(S::Item) -> Result<Pipeline<T>, DataError>,
{
    pub(super) fn new(before: S, cycle: usize, block: u64, function: F) -> Interleave<S, T, F> {
        let mut open = Vec::new();
        open.resize_with(cycle.max(1), || None);
        Interleave {
            before,
            block: block.max(1),
            function,
            epoch: 0,
            open,
            place: 0,
            taken: 0,
            ended: false,
        }
    }

    fn next_place(&mut self) {
        self.place = (self.place + 1) % self.open.len();
        self.taken = 0;
    }

    /// The pipeline whose turn it is; `None` at the end.
    fn running(&mut self) -> Result<Option<&mut T>, DataError> {
        while self.open[self.place].is_none() {
            if self.ended {
                if self.open.iter().all(Option::is_none) {
                    return Ok(None);
                }
                self.next_place();
            } else if let Some(item) = self.before.next()? {
                let mut stage = (self.function)(item)?.stage;
                stage.start(self.epoch)?;
                self.open[self.place] = Some(stage);
            } else {
                self.ended = true;
            }
        }
        Ok(self.open[self.place].as_mut())
    }

    /// Counts elements of the running pipeline.
    fn count(&mut self, elements: u64) {
        self.taken += elements;
        if self.taken == self.block {
            self.next_place();
        }
    }

    /// Ends the running pipeline. The place stays empty until its next turn.
    fn close(&mut self) {
        self.open[self.place] = None;
        self.next_place();
    }
}

impl<S, T, F> Stage for Interleave<S, T, F>
where
    S: Stage,
    T: Stage,
    F: FnMut(S::Item) -> Result<Pipeline<T>, DataError>,
{
    type Item = T::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.epoch = epoch;
        self.open.fill_with(|| None);
        self.place = 0;
        self.taken = 0;
        self.ended = false;
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<T::Item>, DataError> {
        while let Some(running) = self.running()? {
            if let Some(item) = running.next()? {
                self.count(1);
                return Ok(Some(item));
            }
            self.close();
        }
        Ok(None)
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let mut passed = 0;
        while passed < count {
            let most = (count - passed).min(self.block - self.taken);
            let Some(running) = self.running()? else {
                break;
            };
            let own = running.pass(most)?;
            passed += own;
            if own < most {
                self.close();
            } else {
                self.count(own);
            }
        }
        Ok(passed)
    }
}

/// The elements of one stage, then those of another.
pub struct Concatenate<S, T> {
    first: S,
    second: T,
    /// `true` once the first has ended.
    ended: bool,
}

impl<S, T> Concatenate<S, T> {
    pub(super) fn new(first: S, second: T) -> Concatenate<S, T> {
        Concatenate {
            first,
            second,
            ended: false,
        }
    }
}

impl<S: Stage, T: Stage<Item = S::Item>> Stage for Concatenate<S, T> {
    type Item = S::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.ended = false;
        self.first.start(epoch)?;
        self.second.start(epoch)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        if !self.ended {
            if let Some(item) = self.first.next()? {
                return Ok(Some(item));
            }
            self.ended = true;
        }
        self.second.next()
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let mut passed = 0;
        if !self.ended {
            passed = self.first.pass(count)?;
            self.ended = passed < count;
        }
        Ok(passed + self.second.pass(count - passed)?)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        let (first, second) = (self.first.length()?, self.second.length()?);
        Ok(first.zip(second).and_then(|(a, b)| a.checked_add(b)))
    }
}
