//! Writer of a file of records: TFRecord or LMDB.

use std::path::Path;

use thalweg_data::{DataError, LmdbWriter, RecordWriter};

use super::arguments::{Convert, RecordFormat};

/// Largest length of the name in a key, in bytes: LMDB takes keys of 511 bytes.
const MAX_NAME_BYTES: usize = 500;

/// Writes records.
pub(super) enum Writer {
    Records(RecordWriter),
    /// With the number of the next record.
    Lmdb(LmdbWriter, u64),
}

impl Writer {
    pub(super) fn create(path: &Path, convert: &Convert) -> Result<Writer, DataError> {
        Ok(match convert.format {
            RecordFormat::Tfrecord => {
                let compression = convert.compression.compression();
                Writer::Records(RecordWriter::create(path, compression)?)
            }
            RecordFormat::Lmdb => Writer::Lmdb(LmdbWriter::create(path)?, 0),
        })
    }

    /// Adds a record. In LMDB its key is its number and a name, as Caffe's tools make it.
    pub(super) fn add(&mut self, name: &str, record: &[u8]) -> Result<(), DataError> {
        match self {
            Writer::Records(writer) => writer.write(record),
            Writer::Lmdb(writer, number) => {
                let mut key = format!("{number:08}_{name}").into_bytes();
                key.truncate(MAX_NAME_BYTES);
                *number += 1;
                writer.add(&key, record)
            }
        }
    }

    pub(super) fn finish(self) -> Result<(), DataError> {
        match self {
            Writer::Records(writer) => writer.finish(),
            Writer::Lmdb(writer, _) => writer.finish(),
        }
    }
}
