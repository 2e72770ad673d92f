//! Reader of a TFRecord file: compression, damaged records, errors that name the place.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::compression::{Compression, Source};
use super::framing::{HEADER_BYTES, RecordReader};
use crate::error::DataError;
use crate::record_error::RecordError;

/// Size of the buffer of a file, in bytes. It fits into the second cache of a core.
const BUFFER_BYTES: usize = 256 << 10;

/// Options of reading TFRecord files.
///
/// ```
/// use std::sync::{Arc, atomic::AtomicU64};
/// use thalweg_data::RecordOptions;
///
/// let damaged = Arc::new(AtomicU64::new(0));
/// let options = RecordOptions {
///     skip_damaged: Some(damaged.clone()),
///     ..RecordOptions::default()
/// };
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// The compression of a file. With `None`, its first bytes decide.
    pub compression: Option<Compression>,
    /// Skips damaged records and counts them here. With `None`, a damaged record is an error.
    ///
    /// After a damaged length, and at a cut end, the rest of the file is skipped and counts as one record: nothing
    /// marks where the next one starts.
    pub skip_damaged: Option<Arc<AtomicU64>>,
}

/// A TFRecord file that is read from its first record to its last.
pub struct RecordFile {
    path: PathBuf,
    reader: RecordReader<Source>,
    compression: Compression,
    skip_damaged: Option<Arc<AtomicU64>>,
    /// Number of the next record.
    record: u64,
    ended: bool,
    data: Vec<u8>,
}

impl RecordFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`DataError::Io`]; [`DataError::WithoutGzip`]: the file is compressed, and that is not built in.
    pub fn open(path: impl AsRef<Path>, options: RecordOptions) -> Result<RecordFile, DataError> {
        RecordFile::open_at(path.as_ref(), &options, 0, 0)
    }

    /// Opens a file at a record. The position of one that is not the first counts in plain files only.
    pub(crate) fn open_at(
        path: &Path,
        options: &RecordOptions,
        record: u64,
        offset: u64,
    ) -> Result<RecordFile, DataError> {
        let wrong = |source| DataError::Io {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(wrong)?;
        let about = file.metadata().map_err(wrong)?;
        let compression = match options.compression {
            Some(compression) => compression,
            // A pipe is read once.
            None if !about.is_file() => Compression::None,
            None => detect(&mut file).map_err(wrong)?,
        };
        if offset > 0 {
            file.seek(SeekFrom::Start(offset)).map_err(wrong)?;
        }
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        let from = compression.source(file, path)?;
        let reader = match compression {
            Compression::None if about.is_file() => {
                RecordReader::with_size(from, about.len(), offset)
            }
            _ => RecordReader::new(from),
        };
        Ok(RecordFile {
            path: path.to_owned(),
            reader,
            compression,
            skip_damaged: options.skip_damaged.clone(),
            record,
            ended: false,
            data: Vec::new(),
        })
    }

    /// The data of the next record; `None` at the end.
    ///
    /// # Errors
    /// [`DataError::Record`]: the record is damaged, or cannot be read.
    pub fn read(&mut self) -> Result<Option<&[u8]>, DataError> {
        let mut data = std::mem::take(&mut self.data);
        let read = self.read_into(&mut data);
        self.data = data;
        Ok(read?.then_some(&self.data))
    }

    /// Puts the data of the next record into `to`, in place of what it holds; `false` at the end.
    ///
    /// # Errors
    /// As [`RecordFile::read`].
    pub fn read_into(&mut self, to: &mut Vec<u8>) -> Result<bool, DataError> {
        while !self.ended {
            let source = match self.reader.read_into(to) {
                Ok(more) => {
                    self.ended = !more;
                    self.record += u64::from(more);
                    return Ok(more);
                }
                Err(source) => source,
            };
            let next_follows = matches!(source, RecordError::DataChecksum);
            self.ended = !next_follows;
            match &self.skip_damaged {
                Some(damaged)
                    if !matches!(source, RecordError::Io(_) | RecordError::Memory { .. }) =>
                {
                    damaged.fetch_add(1, Relaxed);
                    self.record += 1;
                }
                _ => return Err(self.error(source)),
            }
        }
        Ok(false)
    }

    /// Passes over the next record; `false` at the end. Its data are not read, if the file is not compressed and no
    /// damaged records are skipped.
    pub(crate) fn pass_over(&mut self) -> Result<bool, DataError> {
        let seekable = self.compression == Compression::None && self.reader.has_size();
        if !seekable || self.skip_damaged.is_some() {
            return self.read().map(|record| record.is_some());
        }
        let passed = match self.ended {
            true => Ok(false),
            false => self.reader.pass_over(move_by),
        };
        self.ended = !matches!(passed, Ok(true));
        self.record += u64::from(!self.ended);
        passed.map_err(|source| self.error(source))
    }

    /// Moves to a record of an uncompressed file.
    pub(crate) fn jump(&mut self, record: u64, offset: u64) -> Result<(), DataError> {
        let jumped = self.reader.jump(offset, move_by);
        self.record = record;
        self.ended = false;
        jumped.map_err(|source| self.error(source.into()))
    }

    fn error(&self, source: RecordError) -> DataError {
        DataError::Record {
            path: self.path.clone(),
            record: self.record,
            offset: self.reader.offset(),
            source,
        }
    }

    /// The compression of the file.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Number of the next record, from 0.
    pub fn record(&self) -> u64 {
        self.record
    }
}

/// Moves an uncompressed file. Bytes that the buffer has are not read again.
fn move_by(source: &mut Source, bytes: i64) -> std::io::Result<()> {
    match source {
        Source::Plain(file) => file.seek_relative(bytes),
        #[cfg(feature = "gzip")]
        Source::Packed(_) => Err(std::io::ErrorKind::Unsupported.into()),
    }
}

/// Finds the compression of a file, and returns to its start.
fn detect(file: &mut File) -> std::io::Result<Compression> {
    let mut first = Vec::new();
    (&*file).take(HEADER_BYTES as u64).read_to_end(&mut first)?;
    file.rewind()?;
    Ok(Compression::detect(&first))
}
