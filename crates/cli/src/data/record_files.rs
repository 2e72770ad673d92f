//! Files of records, TFRecord and LMDB, as arguments and as sources of records and pictures.

use std::path::{Path, PathBuf};

use thalweg_data::example::{Datum, Example};
use thalweg_data::pipeline::{Stage, files};
use thalweg_data::{DataError, LmdbCursor, LmdbReader, RecordFile, RecordOptions};

use super::keys;
use crate::failure::Failure;

/// Name of the file in a folder of LMDB.
const LMDB_FILE: &str = "data.mdb";

/// The files of arguments: a name that is no file is a pattern, such as `data/train-*`.
///
/// # Errors
/// No file matches a pattern.
pub(super) fn expanded(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for argument in arguments {
        if argument.is_dir() && !argument.join(LMDB_FILE).is_file() {
            let shown = argument.display();
            return Err(
                format!("{shown} is a folder: give its files, as in '{shown}/train-*'").into(),
            );
        }
        match argument.to_str() {
            Some(pattern) if !argument.exists() => all.extend(files(pattern)?),
            _ => all.push(argument.clone()),
        }
    }
    Ok(all)
}

/// Number of threads: the one that was asked for, or that of the cores.
///
/// # Errors
/// It is 0.
pub(super) fn threads(asked: Option<usize>) -> Result<usize, Failure> {
    match asked {
        Some(0) => Err("--threads 0: give at least 1".into()),
        Some(count) => Ok(count),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// Reader of a file of records: of tf.Example in TFRecord files, of Caffe's Datum in LMDB.
pub(super) enum Reader {
    Records(RecordFile),
    Lmdb(LmdbCursor),
}

impl Reader {
    /// Opens a TFRecord file, the folder of an LMDB, or its file `data.mdb`.
    ///
    /// # Errors
    /// The file cannot be read, or is no LMDB.
    pub(super) fn open(path: &Path) -> Result<Reader, DataError> {
        let is_lmdb = path.is_dir() || path.file_name().is_some_and(|name| name == LMDB_FILE);
        Ok(match is_lmdb {
            true => Reader::Lmdb(LmdbReader::open(path)?.cursor()),
            false => Reader::Records(RecordFile::open(path, RecordOptions::default())?),
        })
    }

    /// Puts the next record into `to`, in place of what it holds; `false` at the end.
    ///
    /// # Errors
    /// The record is damaged, or cannot be read.
    pub(super) fn read_into(&mut self, to: &mut Vec<u8>) -> Result<bool, DataError> {
        match self {
            Reader::Records(file) => file.read_into(to),
            Reader::Lmdb(cursor) => Ok(match cursor.next()? {
                Some((_, value)) => {
                    *to = value;
                    true
                }
                None => false,
            }),
        }
    }

    /// The picture's file in a record; `None` if it has none.
    ///
    /// # Errors
    /// The record is no message of the kind.
    pub(super) fn picture<'a>(&self, record: &'a [u8]) -> Result<Option<&'a [u8]>, DataError> {
        Ok(match self {
            Reader::Records(_) => first_bytes(&Example::parse(record)?, keys::ENCODED),
            Reader::Lmdb(_) => {
                let datum = Datum::parse(record)?;
                datum.encoded.then_some(datum.data)
            }
        })
    }
}

/// The pictures' files in files of records, as a source of a pipeline.
pub(super) struct Pictures {
    paths: Vec<PathBuf>,
    /// Number of the next file.
    next: usize,
    reader: Option<Reader>,
    record: Vec<u8>,
}

impl Pictures {
    pub(super) fn new(paths: &[PathBuf]) -> Pictures {
        Pictures {
            paths: paths.to_vec(),
            next: 0,
            reader: None,
            record: Vec::new(),
        }
    }
}

impl Stage for Pictures {
    type Item = Vec<u8>;

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.next = 0;
        self.reader = None;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, DataError> {
        loop {
            let Some(reader) = &mut self.reader else {
                let Some(path) = self.paths.get(self.next) else {
                    return Ok(None);
                };
                self.reader = Some(Reader::open(path)?);
                self.next += 1;
                continue;
            };
            if reader.read_into(&mut self.record)? {
                let picture = reader.picture(&self.record)?.map(<[u8]>::to_vec);
                let missing = || DataError::Function("a record has no picture's file".into());
                return picture.ok_or_else(missing).map(Some);
            }
            self.reader = None;
        }
    }
}

/// The first byte string of a feature.
pub(super) fn first_bytes<'a>(example: &Example<'a>, key: &str) -> Option<&'a [u8]> {
    example.get(key)?.bytes()?.next()
}

/// The first integer of a feature.
pub(super) fn first_int(example: &Example<'_>, key: &str) -> Option<i64> {
    example.get(key)?.ints()?.next()
}
