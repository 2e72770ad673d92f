//! Merging of the partial checkpoints that several tasks or devices wrote.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::index::{Index, shown};
use super::paths::{data_path, index_path};
use super::proto;
use super::write::{remove_data, write_index};
use crate::disk::{self, Disk};
use crate::error::CheckpointError;

/// Options of [`merge`].
///
/// ```
/// let options = thalweg_checkpoint::MergeOptions::default();
/// assert!(options.delete_old && !options.allow_missing);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeOptions {
    /// `true` to remove the parts' folders if they are empty afterwards, unless the merged
    /// checkpoint is there.
    pub delete_old: bool,
    /// `true` if parts may be missing.
    pub allow_missing: bool,
}

impl Default for MergeOptions {
    fn default() -> MergeOptions {
        MergeOptions {
            delete_old: true,
            allow_missing: false,
        }
    }
}

/// Merges the checkpoints `parts` into one checkpoint `to`: their data files are renamed to it, and
/// one index is written. The parts are gone afterwards. All of them must be on this machine's disk,
/// or on a shared one.
///
/// # Errors
/// [`CheckpointError::Missing`] for a part that does not exist, [`CheckpointError::Duplicate`] for
/// a tensor of two parts, [`CheckpointError::Slice`] for slices of unequal wholes,
/// [`CheckpointError::Corrupt`], and [`CheckpointError::Io`].
/// [`CheckpointError::Io`].
///
/// ```
/// use thalweg_checkpoint::{BundleReader, BundleWriter, MergeOptions, bundle};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = std::env::temp_dir().join(format!("thalweg-merge-{}", std::process::id()));
/// let parts = [folder.join("temp/part-0"), folder.join("temp/part-1")];
/// for (part, name) in parts.iter().zip(["w", "b"]) {
///     let mut writer = BundleWriter::create(part)?;
///     writer.add(name, &Tensor::scalar(1.0f32))?;
///     writer.finish()?;
/// }
/// bundle::merge(&parts, &folder.join("model"), MergeOptions::default())?;
/// assert_eq!(BundleReader::open(&folder.join("model"))?.names().count(), 2);
/// assert!(!folder.join("temp").exists());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
pub fn merge(parts: &[PathBuf], to: &Path, options: MergeOptions) -> Result<(), CheckpointError> {
    merge_on(&disk::system(), parts, to, options)
}

/// As [`merge`], on this disk.
///
/// # Errors
/// As there.
pub fn merge_on(
    disk: &Arc<dyn Disk>,
    parts: &[PathBuf],
    to: &Path,
    options: MergeOptions,
) -> Result<(), CheckpointError> {
    let mut merged = Merged::default();
    let mut found = Vec::new();
    for part in parts {
        let path = index_path(part);
        if !disk::exists(&**disk, &path) {
            if options.allow_missing {
                continue;
            }
            return Err(CheckpointError::Missing {
                path: part.clone(),
                kind: "part of a checkpoint",
                advice: "the task that merges must see what each task wrote; let all save to a disk that they share"
                    .to_owned(),
            });
        }
        merged.add(part, Index::read(&**disk, &path)?, to)?;
        found.push(part);
    }
    let folder = disk::folder_of(to);
    disk.create_folder(folder)
        .map_err(|e| CheckpointError::io(folder, "made", &e))?;
    let data = merged.files.len();
    let old = Index::read(&**disk, &index_path(to))
        .ok()
        .map(|index| index.shards());
    // The data files of an earlier checkpoint of this name stay until the index is replaced.
    let all = data + usize::from(old == Some(data));
    for (shard, from) in merged.files.iter().enumerate() {
        disk.rename(from, &data_path(to, shard, all))
            .map_err(|e| CheckpointError::io(from, "renamed", &e))?;
    }
    if all > data {
        disk::write(disk, &data_path(to, data, all), &[])?;
    }
    disk::sync_folder_of(disk, to)?;
    write_index(disk, to, all, &merged.entries)?;
    if let Some(old) = old {
        remove_data(disk, to, old)?;
    }
    // The checkpoint is complete: leftovers of its parts are harmless.
    for part in found.iter().filter(|part| part.as_path() != to) {
        let _ = disk.remove(&index_path(part));
    }
    if options.delete_old {
        let mut old: Vec<_> = found.iter().map(|p| disk::folder_of(p)).collect();
        old.dedup();
        for old in old.into_iter().filter(|old| *old != folder) {
            let _ = disk.remove_folder(old);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Merged {
    entries: BTreeMap<Vec<u8>, proto::EntryProto>,
    /// The data files, in the order of their new numbers.
    files: Vec<PathBuf>,
}

impl Merged {
    fn add(&mut self, part: &Path, index: Index, to: &Path) -> Result<(), CheckpointError> {
        let first = self.files.len();
        let shards = index.shards();
        for shard in 0..shards {
            let file = data_path(part, shard, shards);
            // Checked before any rename; an absurd number of shards also ends here.
            if !file.is_file() {
                return Err(CheckpointError::corrupt(
                    &file,
                    "is not there, and its index is: the part was not written to its end",
                ));
            }
            self.files.push(file);
        }
        for (key, mut entry) in index.entries {
            let shard = usize::try_from(entry.shard_id).ok();
            let shard = shard.filter(|&s| s < shards).map(|s| s + first);
            let shard = shard.and_then(|s| i32::try_from(s).ok()).ok_or_else(|| {
                let what = "lies in a shard that there is not";
                CheckpointError::corrupt_entry(&index.path, shown(&key), what)
            })?;
            let sliced = !entry.slices.is_empty();
            entry.shard_id = if sliced { 0 } else { shard };
            match self.entries.entry(key) {
                Place::Vacant(place) => {
                    place.insert(entry);
                }
                Place::Occupied(mut there) => {
                    let name = shown(there.key());
                    let there = there.get_mut();
                    if !sliced || there.slices.is_empty() {
                        let file = to.to_owned();
                        return Err(CheckpointError::Duplicate { name, file });
                    }
                    if there.shape != entry.shape || there.dtype != entry.dtype {
                        return Err(CheckpointError::Slice {
                            slice: format!("what {} has of {name}", part.display()),
                            what: " of what another part has: their full shapes or dtypes differ; save all parts from one graph"
                                .to_owned(),
                        });
                    }
                    there.slices.extend(entry.slices);
                }
            }
        }
        Ok(())
    }
}
