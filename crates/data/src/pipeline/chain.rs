//! Operators as methods of a pipeline.

use std::path::PathBuf;

use thalweg_tensor::Tensor;

use super::batch::{Batch, Group, Remainder};
use super::buckets::Buckets;
use super::cache::Cache;
use super::cache_file::CacheFile;
use super::counters::{Counted, Counters};
use super::elements::{Enumerate, Filter, Map, Zip};
use super::interleave::{Concatenate, Interleave};
use super::iterator::Pipeline;
use super::order::{Repeat, Shard, Shuffle, Skip, Take};
use super::padded::{PaddedBatch, Padding};
use super::parallel::MapParallel;
use super::prefetch::Prefetch;
use super::stage::Stage;
use super::window::Window;
use crate::error::DataError;

impl<S: Stage> Pipeline<S> {
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

    /// The elements of this pipeline, then those of another one.
    pub fn concatenate<T: Stage<Item = S::Item>>(
        self,
        other: Pipeline<T>,
    ) -> Pipeline<Concatenate<S, T>> {
        Pipeline::new(Concatenate::new(self.stage, other.stage))
    }

    /// Makes a pipeline of each element, and takes `block` elements in turn from each of `cycle` pipelines. The order is
    /// that of `tf.data`: where a pipeline ends, the next one takes its place a turn later.
    ///
    /// ```
    /// use thalweg_data::pipeline::{from_fn, from_vec};
    ///
    /// let numbers = from_vec(vec![10, 20, 30])
    ///     .interleave(2, 1, |n| Ok(from_fn(move |_| n..n + 2)));
    /// let all: Result<Vec<i32>, _> = numbers.collect();
    /// assert_eq!(all?, [10, 20, 11, 21, 30, 31]);
    /// # Ok::<(), thalweg_data::DataError>(())
    /// ```
    pub fn interleave<T, F>(
        self,
        cycle: usize,
        block: u64,
        function: F,
    ) -> Pipeline<Interleave<S, T, F>>
    where
        T: Stage,
        F: FnMut(S::Item) -> Result<Pipeline<T>, DataError>,
    {
        Pipeline::new(Interleave::new(self.stage, cycle, block, function))
    }

    /// Keeps the elements of an epoch in memory, and gives copies of them in later ones. They are those of epoch 0: a
    /// shuffle before it has one order for all epochs.
    pub fn cache(self) -> Pipeline<Cache<S>>
    where
        S::Item: Clone,
    {
        Pipeline::new(Cache::new(self.stage))
    }

    /// Vectors of `size` elements that are `stride` apart. Each starts `shift` elements after the one before, as in
    /// `tf.data`. The last ones are shorter, or are left out.
    pub fn window(
        self,
        size: usize,
        shift: usize,
        stride: usize,
        remainder: Remainder,
    ) -> Pipeline<Window<S>>
    where
        S::Item: Clone,
    {
        Pipeline::new(Window::new(self.stage, [size, shift, stride], remainder))
    }

    /// Counts elements and times at this place. The counters of all such places are listed in `counters`.
    pub fn counted(self, name: impl Into<String>, counters: &Counters) -> Pipeline<Counted<S>> {
        Pipeline::new(Counted::new(self.stage, counters.add(name.into())))
    }

    /// A pipeline whose type does not name its stages.
    pub fn boxed<'a>(self) -> Pipeline<Box<dyn Stage<Item = S::Item> + Send + 'a>>
    where
        S: Send + 'a,
    {
        Pipeline::new(Box::new(self.stage))
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

    /// As [`Pipeline::batch`], for elements of several shapes: each tensor is padded at the end of its dimensions.
    ///
    /// ```
    /// use thalweg_data::pipeline::{from_vec, Padding, Remainder};
    /// use thalweg_tensor::Tensor;
    ///
    /// # fn main() -> Result<(), thalweg_data::DataError> {
    /// let rows = from_vec(vec![[Tensor::from(vec![1, 2])], [Tensor::from(vec![3])]]);
    /// let padding = [Padding { value: Some(Tensor::from(-1)), ..Padding::default() }];
    /// let mut batches = rows.padded_batch(2, Remainder::Keep, padding);
    /// let [batch] = batches.next().expect("there is one")?;
    /// assert_eq!((batch.dims(), batch.to_vec::<i32>()?), (&[2, 2][..], vec![1, 2, 3, -1]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn padded_batch(
        self,
        size: usize,
        remainder: Remainder,
        padding: [Padding; N],
    ) -> Pipeline<PaddedBatch<Group<S>, N>> {
        let groups = Group::new(self.stage, size, remainder);
        Pipeline::new(PaddedBatch::new(groups, padding))
    }

    /// Padded batches of elements of like length. Bucket `i` has the lengths below `boundaries[i]` that no bucket before
    /// has, the last bucket has all others; `sizes` has the size of a batch of each. At the end, buckets that are not
    /// full follow by length.
    pub fn bucket_by_length<F: FnMut(&S::Item) -> usize>(
        self,
        length: F,
        boundaries: Vec<usize>,
        sizes: Vec<usize>,
        remainder: Remainder,
        padding: [Padding; N],
    ) -> Pipeline<PaddedBatch<Buckets<S, F>, N>> {
        let buckets = Buckets::new(self.stage, length, boundaries, sizes, remainder);
        Pipeline::new(PaddedBatch::new(buckets, padding))
    }

    /// Keeps the elements of an epoch in a file, and reads them from there in later epochs and by later programs. As of
    /// [`Pipeline::cache`], they are those of epoch 0.
    ///
    /// The file gets its name once a whole epoch is in it. Delete it when the data change.
    pub fn cache_file(self, path: impl Into<PathBuf>) -> Pipeline<CacheFile<S, N>> {
        Pipeline::new(CacheFile::new(self.stage, path.into()))
    }
}
