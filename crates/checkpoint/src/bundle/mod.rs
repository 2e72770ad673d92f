//! TensorFlow's checkpoints (version 2, "bundles"): `PREFIX.index` and `PREFIX.data-00000-of-00001`.
//!
//! Files are written byte for byte as TensorFlow writes them, and all of its variants are read: any
//! number of shards, partitioned variables, strings, Snappy-compressed indexes. Source:
//! TensorFlow's `core/util/tensor_bundle`.
//!
//! ```
//! use thalweg_checkpoint::{BundleReader, BundleWriter};
//! use thalweg_tensor::Tensor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = std::env::temp_dir().join(format!("thalweg-bundle-{}", std::process::id()));
//! let prefix = folder.join("model.ckpt-1");
//! let mut writer = BundleWriter::create(&prefix)?;
//! writer.add("w", &Tensor::vector(&[1.0f32, 2.0]))?;
//! writer.add("step", &Tensor::scalar(1i64))?;
//! writer.finish()?;
//!
//! let reader = BundleReader::open(&prefix)?;
//! let names: Vec<_> = reader.entries().map(|e| e.name).collect();
//! assert_eq!(names, ["step", "w"]);
//! assert_eq!(reader.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0]);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

mod block;
mod dtype;
mod entry;
mod first;
mod index;
mod keys;
mod merge;
mod paths;
mod proto;
mod read;
mod slice;
mod strings;
mod write;

pub use dtype::EntryType;
pub use entry::EntryInfo;
pub use first::FirstReader;
pub use merge::{MergeOptions, merge, merge_on};
pub(crate) use paths::with_suffix;
pub use paths::{data_path, index_path};
pub use read::BundleReader;
pub(crate) use read::with_newest;
pub use slice::SliceSpec;
pub use write::BundleWriter;

#[cfg(test)]
mod tests;
