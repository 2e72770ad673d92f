//! `tf.train.Example`, `tf.train.SequenceExample` and Caffe's `Datum`: messages that records hold.
//!
//! A message is read in place: keys and values are slices of the record. Sources: TensorFlow's
//! `core/example/example.proto` and `feature.proto`, Caffe's `caffe.proto`.
//!
//! ```
//! use thalweg_data::example::{Example, ExampleWriter};
//!
//! let record = ExampleWriter::new()
//!     .bytes("image/encoded", [b"\xff\xd8"])
//!     .ints("image/class/label", &[7])
//!     .finish();
//!
//! let example = Example::parse(&record)?;
//! let label = example.get("image/class/label").and_then(|f| f.ints()?.next());
//! assert_eq!(label, Some(7));
//! assert!(example.get("image/height").is_none());
//! # Ok::<(), thalweg_data::DataError>(())
//! ```

mod datum;
mod lists;
mod parse;
mod wire;
mod write;

#[cfg(test)]
mod tests;

pub use datum::Datum;
pub use lists::{BytesList, Feature, FloatList, IntList};
pub use parse::{Example, FeatureList, SequenceExample};
pub use write::{ExampleWriter, SequenceExampleWriter};
