//! Readers of data sets, and the batches that a training loop feeds.
//!
//! | module | holds |
//! | --- | --- |
//! | `idx` | IDX files, gzipped or not: arrays of bytes ([`Idx`]) |
//! | `split` | images with a label each ([`Split`]) |
//! | `mnist` | MNIST and data sets in its form: four IDX files ([`Mnist`]) |
//! | `tensor_batches` | batches of a program's own tensors ([`TensorBatches`], [`chunks`], [`split`]) |
//! | `batches` | shuffled batches without end ([`Batches`]), and one ordered pass ([`Chunks`]) |
//! | `shuffle` | permutations that a seed and an epoch determine |
//! | `tfrecord` | TFRecord files, compressed or not ([`RecordFile`], [`RecordWriter`]), their index ([`RecordIndex`]), their framing ([`RecordReader`], [`write_record`]) |
//! | `cifar` | CIFAR-10 and CIFAR-100 in their binary form ([`cifar10`], [`cifar100`]) |
//! | `csv` | CSV files: rows of typed columns (`csv`, with the feature of this name) |
//! | `npy` | NumPy's files ([`NpyFile`], [`write_npy`], [`npy_rows`]) |
//! | `image_folder` | folders of images, one for each class ([`ImageFolder`]) |
//! | `lmdb` | LMDB files, as Caffe's tools write them ([`LmdbReader`], [`LmdbWriter`], [`fn@lmdb`]) |
//! | [`example`] | messages in records: `tf.train.Example`, `SequenceExample`, Caffe's `Datum` |
//! | [`pipeline`] | sources and operators in a chain: shuffle, interleave, map, batch, cache, prefetch ([`Pipeline`]) |
//! | `tensor_record` | records of tensors, for files that cache elements |
//! | `positioned` | reads by position, from a file or from memory |
//! | `error`, `record_error` | [`DataError`], [`RecordError`] |
//!
//! Nothing here depends on graphs or sessions: readers return slices and tensors, and the caller feeds them.
//!
//! A new format gets a module of its own beside `idx` and `tfrecord`. Its reader never trusts a
//! length that it reads (it is checked against what is left of the file, or memory grows with the bytes that arrive),
//! can read bytes in memory under a name, for tests, and reports mistakes as [`DataError`] with the file and the
//! position. A data set that consists of such files, as `mnist` does, is a module on top of it.
//!
//! ```no_run
//! use thalweg_data::{Batches, Mnist};
//!
//! # fn main() -> Result<(), thalweg_data::DataError> {
//! let mnist = Mnist::load("data/mnist")?;
//! let mut batches = Batches::new(&mnist.train, 50, 1)?;
//! let mut images = vec![0.0; 50 * mnist.train.pixels()];
//! let mut labels = vec![0; 50];
//! for _step in 0..1000 {
//!     batches.next_into(&mut images, &mut labels)?;
//! }
//! # Ok(())
//! # }
//! ```

mod batches;
pub mod cache_records;
mod cifar;
#[cfg(feature = "csv")]
mod csv;
mod error;
pub mod example;
mod idx;
mod image_folder;
mod lmdb;
mod mnist;
mod npy;
pub mod pipeline;
mod positioned;
mod record_error;
mod shuffle;
mod split;
mod tensor_batches;
mod tensor_record;
mod tfrecord;
mod vocabulary;

pub use batches::{Batches, Chunk, Chunks};
pub use cifar::{CIFAR_BYTES, Cifar, CifarImage, cifar10, cifar100};
#[cfg(feature = "csv")]
pub use csv::{Column, ColumnPlace, Csv, CsvOptions, csv};
pub use error::DataError;
pub use idx::{Idx, MAX_BYTES, idx_tensor};
pub use image_folder::{ImageFolder, read_file};
pub use lmdb::{Lmdb, LmdbCursor, LmdbEntry, LmdbReader, LmdbWriter, lmdb};
pub use mnist::{Mnist, SIDE};
#[cfg(feature = "npz")]
pub use npy::npz_rows;
pub use npy::{NpyFile, NpyRows, npy_rows, write_npy};
pub use pipeline::Pipeline;
pub use record_error::RecordError;
pub use split::{CLASSES, Split};
pub use tensor_batches::{TensorBatches, chunks, split};
pub use tfrecord::{
    Compression, MAX_RECORD_BYTES, RecordFile, RecordIndex, RecordOptions, RecordReader,
    RecordWriter, append_record, write_record,
};
pub use vocabulary::Vocabulary;
