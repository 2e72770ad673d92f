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

use std::ffi::OsString;
use std::path::{Path, PathBuf};

mod assemble;
mod dtype;
mod entry;
mod index;
mod keys;
mod merge;
mod proto;
mod read;
mod slice;
mod strings;
mod write;

pub use dtype::EntryType;
pub use entry::EntryInfo;
pub use merge::{MergeOptions, merge, merge_on};
pub use read::BundleReader;
pub use slice::SliceSpec;
pub use write::BundleWriter;

/// The path of a checkpoint's index.
///
/// ```
/// let index = thalweg_checkpoint::bundle::index_path("run/model.ckpt-5".as_ref());
/// assert_eq!(index, std::path::Path::new("run/model.ckpt-5.index"));
/// ```
pub fn index_path(prefix: &Path) -> PathBuf {
    with_suffix(prefix, ".index")
}

/// The path of a checkpoint's shard.
///
/// ```
/// let data = thalweg_checkpoint::bundle::data_path("model.ckpt-5".as_ref(), 0, 2);
/// assert_eq!(data, std::path::Path::new("model.ckpt-5.data-00000-of-00002"));
/// ```
pub fn data_path(prefix: &Path, shard: usize, shards: usize) -> PathBuf {
    with_suffix(prefix, &format!(".data-{shard:05}-of-{shards:05}"))
}

/// The path with this suffix appended: dots in a prefix do not begin an extension.
pub(crate) fn with_suffix(prefix: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(prefix);
    path.push(suffix);
    path.into()
}

#[cfg(test)]
mod tests;
