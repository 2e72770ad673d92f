//! Lmdb: the values of an LMDB file as a source.

use std::path::Path;

use super::reader::{LmdbCursor, LmdbEntry, LmdbReader};
use crate::error::DataError;
use crate::pipeline::{Pipeline, Stage};

/// Keys and values of an LMDB file. Built by [`lmdb`].
pub struct Lmdb {
    reader: LmdbReader,
    cursor: LmdbCursor,
}

/// The keys of an LMDB file with their values, in the order of the keys. Large values are passed over unread.
///
/// # Errors
/// As [`LmdbReader::open`].
pub fn lmdb(path: impl AsRef<Path>) -> Result<Pipeline<Lmdb>, DataError> {
    let reader = LmdbReader::open(path)?;
    let cursor = reader.cursor();
    Ok(Pipeline::new(Lmdb { reader, cursor }))
}

impl Stage for Lmdb {
    type Item = LmdbEntry;

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.cursor = self.reader.cursor();
        Ok(())
    }

    fn next(&mut self) -> Result<Option<LmdbEntry>, DataError> {
        self.cursor.next()
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        self.cursor.pass(count)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        Ok(Some(self.reader.len()))
    }
}
