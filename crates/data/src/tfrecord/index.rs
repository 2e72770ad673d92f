//! Index of a TFRecord file: the positions of its records.

use std::path::Path;

use thalweg_checkpoint::crc;

use super::framing::{FOOTER_BYTES, HEADER_BYTES, data_bytes, little_endian};
use crate::error::DataError;
use crate::positioned::PositionedFile;
use crate::record_error::RecordError;

/// Bytes that are read at once: lengths of small records come together, the data of large ones are not read.
const BLOCK_BYTES: usize = 4096;

/// The positions of the records of an uncompressed TFRecord file, for their number and for access to each.
///
/// ```
/// use thalweg_data::{Compression, RecordIndex, RecordWriter};
///
/// # fn main() -> Result<(), thalweg_data::DataError> {
/// let path = std::env::temp_dir().join(format!("thalweg-index-{}", std::process::id()));
/// let mut writer = RecordWriter::create(&path, Compression::None)?;
/// for n in 0..3u8 {
///     writer.write(&[n; 100])?;
/// }
/// writer.finish()?;
///
/// let index = RecordIndex::scan(&path)?;
/// assert_eq!(index.len(), 3);
/// assert_eq!(index.read(2)?, [2; 100]);
/// # let _ = std::fs::remove_file(path);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordIndex {
    file: PositionedFile,
    /// Of each record, and of the end.
    offsets: Vec<u64>,
}

impl RecordIndex {
    /// Reads the lengths of all records of a file, and passes over their data.
    ///
    /// # Errors
    /// [`DataError::Io`], [`DataError::Record`]: the file cannot be read, or has something that is no record. A
    /// compressed file has no index.
    pub fn scan(path: impl AsRef<Path>) -> Result<RecordIndex, DataError> {
        RecordIndex::of(PositionedFile::open(path.as_ref())?)
    }

    /// The index of a file in memory; errors call it `name`.
    ///
    /// # Errors
    /// As [`RecordIndex::scan`].
    pub fn scan_bytes(bytes: Vec<u8>, name: impl AsRef<Path>) -> Result<RecordIndex, DataError> {
        RecordIndex::of(PositionedFile::of_bytes(bytes, name.as_ref()))
    }

    fn of(file: PositionedFile) -> Result<RecordIndex, DataError> {
        let offsets = vec![0];
        let mut index = RecordIndex { file, offsets };
        let end = index.file.len();
        let mut block = [0; BLOCK_BYTES];
        let (mut block_at, mut block_len) = (0, 0);
        let mut offset = 0;
        while offset < end {
            let record = index.offsets.len() as u64 - 1;
            if end - offset < (HEADER_BYTES + FOOTER_BYTES) as u64 {
                return Err(index.error(record, RecordError::Truncated));
            }
            let inside = offset.wrapping_sub(block_at);
            if inside + HEADER_BYTES as u64 > block_len {
                block_at = offset;
                block_len = (end - offset).min(BLOCK_BYTES as u64);
                index.file.read(offset, &mut block[..block_len as usize])?;
            }
            let header = block[(offset - block_at) as usize..].first_chunk();
            let header: &[u8; HEADER_BYTES] = header.unwrap_or(&[0; HEADER_BYTES]);
            let length = data_bytes(header).map_err(|e| index.error(record, e))?;
            let whole = (HEADER_BYTES + length + FOOTER_BYTES) as u64;
            if whole > end - offset {
                return Err(index.error(record, RecordError::Truncated));
            }
            offset += whole;
            index.offsets.push(offset);
        }
        Ok(index)
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    /// `true` if there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Position of a record in the file; that of its end for the number of records and above.
    pub fn offset(&self, record: u64) -> u64 {
        self.offsets[record.min(self.len()) as usize]
    }

    /// The data of a record. Several threads may read.
    ///
    /// # Errors
    /// [`DataError::Index`]: there is no such record. [`DataError::Record`]: it is damaged.
    pub fn read(&self, record: u64) -> Result<Vec<u8>, DataError> {
        let len = self.len();
        if record >= len {
            return Err(DataError::Index { index: record, len });
        }
        let at = self.offset(record) + HEADER_BYTES as u64;
        let mut data = self.file.bytes(at, self.offset(record + 1) - at)?;
        let checksum = data.split_off(data.len() - FOOTER_BYTES);
        match crc::masked(&data) == little_endian(&checksum) as u32 {
            true => Ok(data),
            false => Err(self.error(record, RecordError::DataChecksum)),
        }
    }

    fn error(&self, record: u64, source: RecordError) -> DataError {
        DataError::Record {
            path: self.file.path().to_owned(),
            record,
            offset: self.offset(record),
            source,
        }
    }
}
