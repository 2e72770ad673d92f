//! Paths of the files of a checkpoint: index and shards.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

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
