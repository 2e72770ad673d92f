//! Pipeline: a chain of stages.

use thalweg_tensor::Tensor;

use super::batch::{Batch, Group, Remainder};
use super::elements::{Enumerate, Filter, Map, Zip};
use super::order::{Repeat, Shard, Shuffle, Skip, Take};
use super::parallel::MapParallel;
use super::prefetch::Prefetch;
use super::stage::Stage;
use crate::error::DataError;

/// A chain of stages. Stages are built by its methods.
pub struct Pipeline<S> {
    stage: S,
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

    /// Calls a function with each element.
    pub fn map<U, F>(self, function: F) -> Pipeline<Map<S, F>>
    where
        F: FnMut(S::Item) -> Result<U, DataError>,
    {
        Pipeline::new(Map::new(self.stage, function))
    }

    /// Calls a function with each element on threads of its own. The order stays.
    pub fn map_parallel<U, F>(self, threads: usize, function: F) -> Pipeline<MapParallel<S, U>>
    where
        S::Item: Send + 'static,
        U: Send + 'static,
        F: Fn(S::Item) -> Result<U, DataError> + Send + Sync + 'static,
    {
        Pipeline::new(MapParallel::new(self.stage, threads, function))
    }

    /// Keeps the elements for which a function returns `true`.
    pub fn filter<F: FnMut(&S::Item) -> bool>(self, function: F) -> Pipeline<Filter<S, F>> {
        Pipeline::new(Filter::new(self.stage, function))
    }

    /// Draws each element from the next `buffer` ones. The order follows from the seed and the epoch.
    pub fn shuffle(self, buffer: usize, seed: u64) -> Pipeline<Shuffle<S>> {
        Pipeline::new(Shuffle::new(self.stage, buffer, seed))
    }

    /// Every `shards`-th element, from number `index` on.
    pub fn shard(self, shards: u64, index: u64) -> Pipeline<Shard<S>> {
        Pipeline::new(Shard::new(self.stage, shards, index))
    }

    /// The first `most` elements.
    pub fn take(self, most: u64) -> Pipeline<Take<S>> {
        Pipeline::new(Take::new(self.stage, most))
    }

    /// All elements but the first `count`.
    pub fn skip(self, count: u64) -> Pipeline<Skip<S>> {
        Pipeline::new(Skip::new(self.stage, count))
    }

    /// The elements so many times, or without end. Each time is an epoch: a shuffle before it has another order.
    pub fn repeat(self, times: Option<u64>) -> Pipeline<Repeat<S>> {
        Pipeline::new(Repeat::new(self.stage, times))
    }

    /// Vectors of so many elements.
    pub fn group(self, size: usize, remainder: Remainder) -> Pipeline<Group<S>> {
        Pipeline::new(Group::new(self.stage, size, remainder))
    }

    /// Elements with their numbers.
    pub fn enumerate(self) -> Pipeline<Enumerate<S>> {
        Pipeline::new(Enumerate::new(self.stage))
    }

    /// Pairs of elements of two pipelines; it ends with the shorter one.
    pub fn zip<T: Stage>(self, other: Pipeline<T>) -> Pipeline<Zip<S, T>> {
        Pipeline::new(Zip::new(self.stage, other.stage))
    }

    /// Makes up to `most` elements before they are asked for, on a thread of its own.
    pub fn prefetch(self, most: usize) -> Pipeline<Prefetch<S>>
    where
        S: Send + 'static,
        S::Item: Send + 'static,
    {
        Pipeline::new(Prefetch::new(self.stage, most))
    }
}

impl<S: Stage<Item = [Tensor; N]>, const N: usize> Pipeline<S> {
    /// Batches: tensors of so many elements, along a new first dimension. Elements of a batch have one shape.
    pub fn batch(self, size: usize, remainder: Remainder) -> Pipeline<Batch<S, N>> {
        Pipeline::new(Batch::new(self.stage, size, remainder))
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
