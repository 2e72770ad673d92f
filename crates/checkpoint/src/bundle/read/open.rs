//! Opening of a checkpoint: reads the index, and checks the lengths of the data files against it.

use std::collections::BTreeMap;
use std::path::Path;

use super::reader::{BundleReader, Shard};
use crate::bundle::entry::Entry;
use crate::bundle::index::{Index, shown};
use crate::bundle::paths::{data_path, index_path};
use crate::disk::{self, Disk};
use crate::error::CheckpointError;

impl BundleReader {
    /// As [`BundleReader::open`], without a search for other checkpoints if this one is damaged.
    pub(crate) fn open_alone(
        disk: &dyn Disk,
        prefix: &Path,
    ) -> Result<BundleReader, CheckpointError> {
        let path = index_path(prefix);
        if !disk::exists(disk, &path) {
            return Err(no_index(prefix, &path));
        }
        let index = Index::read(disk, &path)?;
        let (shards, lengths) = data_files(disk, prefix, &index)?;
        let mut reader = BundleReader {
            prefix: prefix.to_owned(),
            index: path,
            find_newest: |_| None,
            shards,
            entries: BTreeMap::new(),
            parts: BTreeMap::new(),
        };
        let all = index.shards();
        let mut promised = BTreeMap::<usize, u64>::new();
        for (key, found) in &index.entries {
            let name = std::str::from_utf8(key).ok();
            let shown = name.map_or_else(|| shown(key), str::to_owned);
            let entry = Entry::checked(&index.path, &shown, found, all)?;
            let length = lengths.get(&entry.shard).copied().unwrap_or(0);
            let sum = promised.entry(entry.shard).or_default();
            *sum = sum.saturating_add(entry.size);
            let end = entry.offset.checked_add(entry.size);
            // Tensors do not overlap, so their total is no longer than the file either.
            if end.is_none_or(|end| end > length) || *sum > length {
                let what = format!(
                    "lies behind the end of its data file of {length} bytes: the checkpoint was not written to its end, or cut"
                );
                return Err(CheckpointError::corrupt_entry(&index.path, shown, what));
            }
            match name {
                _ if key.starts_with(&[0]) => {
                    // The size of a slice that itself has slices would not be checked.
                    if !entry.slices.is_empty() {
                        let what = "is a slice, and has slices itself";
                        return Err(CheckpointError::corrupt_entry(&index.path, shown, what));
                    }
                    reader.parts.insert(key.clone(), entry);
                }
                Some(name) => {
                    reader.entries.insert(name.to_owned(), entry);
                }
                None => {
                    let what = "has a name that is no UTF-8";
                    return Err(CheckpointError::corrupt_entry(&index.path, shown, what));
                }
            }
        }
        Ok(reader)
    }
}

type DataFiles = (BTreeMap<usize, Shard>, BTreeMap<usize, u64>);

/// Opens the data files of the entries.
fn data_files(disk: &dyn Disk, prefix: &Path, index: &Index) -> Result<DataFiles, CheckpointError> {
    let all = index.shards();
    let (mut shards, mut lengths) = (BTreeMap::new(), BTreeMap::new());
    for entry in index.entries.values().filter(|e| e.slices.is_empty()) {
        let shard = usize::try_from(entry.shard_id).unwrap_or(usize::MAX);
        if shard >= all || shards.contains_key(&shard) {
            continue;
        }
        let path = data_path(prefix, shard, all);
        let (file, length) = disk::open(disk, &path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => CheckpointError::corrupt(
                &path,
                "is not there, and the index of its checkpoint is: part of the files were deleted, or not copied",
            ),
            _ => CheckpointError::io(&path, "read", &e),
        })?;
        lengths.insert(shard, length);
        shards.insert(shard, Shard { path, file });
    }
    Ok((shards, lengths))
}

fn no_index(prefix: &Path, index: &Path) -> CheckpointError {
    if prefix.is_file() {
        return CheckpointError::unsupported(
            prefix,
            None,
            "is a file, and a checkpoint is named by the common beginning of its files, as \
             model.ckpt-1000; the ops RestoreV2 and Restore read TensorFlow's first format, and BundleReader does not",
        );
    }
    CheckpointError::Missing {
        path: prefix.to_owned(),
        kind: "checkpoint",
        advice: format!(
            "{} does not exist; give the common beginning of its files, as model.ckpt-1000",
            index.display()
        ),
    }
}
