//! The index of a checkpoint: the location of each tensor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message;

use super::proto;
use crate::disk::{self, Disk};
use crate::error::CheckpointError;
use crate::table;

/// The raw content of an index: names and the keys of slices, in order.
pub(super) struct Index {
    pub(super) path: PathBuf,
    pub(super) header: proto::HeaderProto,
    pub(super) entries: BTreeMap<Vec<u8>, proto::EntryProto>,
}

impl Index {
    /// Reads and checks an index.
    pub(super) fn read(disk: &dyn Disk, path: &Path) -> Result<Index, CheckpointError> {
        Self::parse(path, &disk::read_whole(disk, path)?)
    }

    /// As [`Index::read`], from these bytes.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Index, CheckpointError> {
        let mut header = None;
        let mut entries = BTreeMap::new();
        let read = table::read::for_each(bytes, |key, value| {
            if key.is_empty() {
                let found = proto::HeaderProto::decode(value);
                header = Some(found.map_err(|_| "has a damaged header")?);
                return Ok(());
            }
            let entry = proto::EntryProto::decode(value)
                .map_err(|_| format!("has a damaged entry {}", shown(key)))?;
            entries.insert(key.to_vec(), entry);
            Ok(())
        });
        read.map_err(|what| CheckpointError::corrupt(path, what))?;
        let header =
            header.ok_or_else(|| CheckpointError::corrupt(path, "has no header in its index"))?;
        let refused = |what: &str| Err(CheckpointError::unsupported(path, None, what));
        if header.endianness != 0 {
            return refused(
                "was written by a machine whose numbers are big-endian: save it again on a little-endian one",
            );
        }
        if header.version.as_ref().is_some_and(|v| v.min_consumer > 1) {
            return refused("needs a newer reader: save it with an older TensorFlow");
        }
        if header.num_shards < 0 {
            return Err(CheckpointError::corrupt(
                path,
                "has a negative number of shards",
            ));
        }
        Ok(Index {
            path: path.to_owned(),
            header,
            entries,
        })
    }

    /// The number of data files.
    pub(super) fn shards(&self) -> usize {
        usize::try_from(self.header.num_shards).unwrap_or(0)
    }
}

/// A key, printable.
pub(super) fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).escape_debug().to_string()
}
