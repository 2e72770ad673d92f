//! Pipelines: sources of examples, and operators that shuffle, map, group and prepare them.
//!
//! A [`Pipeline`] reads like `tf.data` and is an iterator. Its order follows from the seeds alone, on any number of threads.
//! Its [position](Pipeline::position) is a number that a checkpoint can keep.
//!
//! | part | names |
//! | --- | --- |
//! | sources | [`from_vec`], [`from_fn`], [`from_tensors`], [`records`], [`records_with`], [`text_lines`], [`cifar10`](crate::cifar10), [`cifar100`](crate::cifar100), [`npy_rows`](crate::npy_rows), [`lmdb`](fn@crate::lmdb); `npz_rows` and `csv`, with the features of these names |
//! | names of files | [`files`] |
//! | operators of single elements | [`map`](Pipeline::map), [`map_parallel`](Pipeline::map_parallel), [`filter`](Pipeline::filter) |
//! | of the order | [`shuffle`](Pipeline::shuffle), [`shard`](Pipeline::shard), [`take`](Pipeline::take), [`skip`](Pipeline::skip), [`repeat`](Pipeline::repeat) |
//! | of several pipelines | [`interleave`](Pipeline::interleave), [`concatenate`](Pipeline::concatenate), [`zip`](Pipeline::zip) |
//! | of groups | [`group`](Pipeline::group), [`batch`](Pipeline::batch), [`padded_batch`](Pipeline::padded_batch), [`bucket_by_length`](Pipeline::bucket_by_length), [`window`](Pipeline::window), [`enumerate`](Pipeline::enumerate) |
//! | of time | [`prefetch`](Pipeline::prefetch), [`cache`](Pipeline::cache), [`cache_file`](Pipeline::cache_file), [`counted`](Pipeline::counted) |
//!
//! ```
//! use thalweg_data::pipeline::{from_vec, Remainder};
//! use thalweg_tensor::Tensor;
//!
//! # fn main() -> Result<(), thalweg_data::DataError> {
//! let mut batches = from_vec((0..10).collect())
//!     .shuffle(10, 7)
//!     .map_parallel(2, |n: i32| Ok([Tensor::from([n as f32, 1.0]), Tensor::from(n)]))
//!     .repeat(None)
//!     .batch(4, Remainder::Drop)
//!     .prefetch(2);
//! let [x, y] = batches.next().expect("it repeats")?;
//! assert_eq!((x.dims(), y.dims()), (&[4, 2][..], &[4][..]));
//!
//! // A training that resumes here sees the same batches.
//! let position = batches.position();
//! let [next, _] = batches.next().expect("it repeats")?;
//! batches.seek(position)?;
//! assert_eq!(batches.next().expect("it repeats")?[0], next);
//! # Ok(())
//! # }
//! ```
//!
//! Records of many files, some files at a time, for a training that sees them in a new order each epoch:
//!
//! ```no_run
//! use thalweg_data::example::Example;
//! use thalweg_data::pipeline::{Counters, files, from_vec, records};
//!
//! # fn main() -> Result<(), thalweg_data::DataError> {
//! let counters = Counters::default();
//! let paths = files("imagenet/train-*-of-01024")?;
//! let images = from_vec(paths)
//!     .shuffle(1024, 301)
//!     .interleave(10, 1, |path| Ok(records([path])))
//!     .counted("read", &counters)
//!     .shuffle(10_000, 301)
//!     .repeat(None)
//!     .map_parallel(8, |record| {
//!         let example = Example::parse(&record)?;
//!         let image = example.get("image/encoded").and_then(|f| f.bytes()?.next());
//!         Ok(image.unwrap_or_default().to_vec())
//!     })
//!     .counted("parse", &counters)
//!     .prefetch(64);
//! # let _ = images;
//! # Ok(())
//! # }
//! ```

mod batch;
mod buckets;
mod cache;
mod cache_file;
mod chain;
mod counters;
mod elements;
mod files;
mod interleave;
mod iterator;
mod order;
mod padded;
mod parallel;
mod pattern;
mod prefetch;
mod sources;
mod stage;
mod tensors;
#[cfg(test)]
mod tests;
mod window;

pub use batch::{Batch, Group, Remainder};
pub use buckets::Buckets;
pub use cache::Cache;
pub use cache_file::CacheFile;
pub use counters::{Counted, Counters, PlaceCounts};
pub use elements::{Enumerate, Filter, Map, Zip};
pub use files::{Lines, Records, records, records_with, text_lines};
pub use interleave::{Concatenate, Interleave};
pub use iterator::Pipeline;
pub use order::{Repeat, Shard, Shuffle, Skip, Take};
pub use padded::{PaddedBatch, Padding};
pub use parallel::MapParallel;
pub use pattern::{NamePattern, files};
pub use prefetch::Prefetch;
pub use sources::{FromFn, FromVec, from_fn, from_vec};
pub use stage::Stage;
pub use tensors::{FromTensors, from_tensors};
pub use window::Window;
