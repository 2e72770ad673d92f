//! Hash maps from keys to numbers of rows.

use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_tensor::{DType, Memory};

use super::cells::Key;
use crate::support::accounted_map::AccountedMap;

/// Bytes of the allocator for the text of a key.
const STRING_OVERHEAD: usize = 16;

/// Rows by key.
pub(super) enum KeyMap {
    Ints(AccountedMap<i64, usize>),
    Strings(AccountedMap<Box<[u8]>, usize>),
}

impl KeyMap {
    /// A map without keys, for keys of this dtype.
    pub(super) fn new(dtype: DType, memory: &Arc<Memory>) -> KeyMap {
        match dtype {
            DType::String => KeyMap::Strings(AccountedMap::new(memory)),
            _ => KeyMap::Ints(AccountedMap::new(memory)),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            KeyMap::Ints(map) => map.len(),
            KeyMap::Strings(map) => map.len(),
        }
    }

    /// The row of a key.
    pub(super) fn get(&self, key: Key<'_>) -> Option<usize> {
        match (self, key) {
            (KeyMap::Ints(map), Key::Int(key)) => map.get(&key),
            (KeyMap::Strings(map), Key::String(key)) => map.get(key),
            _ => None,
        }
    }

    /// Adds a key that is not there.
    pub(super) fn insert(&mut self, key: Key<'_>, row: usize) -> Result<(), KernelError> {
        match (self, key) {
            (KeyMap::Ints(map), Key::Int(key)) => map.or_insert(key, row, 0).map(drop),
            (KeyMap::Strings(map), Key::String(key)) => {
                let bytes = key.len() + STRING_OVERHEAD;
                map.or_insert(key.into(), row, bytes).map(drop)
            }
            _ => Err(KernelError::Argument("keys of the table's dtype")),
        }
    }

    /// Removes a key; returns its row.
    pub(super) fn remove(&mut self, key: Key<'_>) -> Option<usize> {
        match (self, key) {
            (KeyMap::Ints(map), Key::Int(key)) => map.remove(&key, 0),
            (KeyMap::Strings(map), Key::String(key)) => {
                map.remove(key, key.len() + STRING_OVERHEAD)
            }
            _ => None,
        }
    }

    /// All keys with their rows, in the order of the rows.
    pub(super) fn by_row(&self) -> Vec<(usize, Key<'_>)> {
        let mut all: Vec<(usize, Key<'_>)> = match self {
            KeyMap::Ints(map) => map.iter().map(|(k, row)| (row, Key::Int(*k))).collect(),
            KeyMap::Strings(map) => map.iter().map(|(k, row)| (row, Key::String(k))).collect(),
        };
        all.sort_unstable_by_key(|(row, _)| *row);
        all
    }
}
