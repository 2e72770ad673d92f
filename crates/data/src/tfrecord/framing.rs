//! Framing of records: lengths and checksums.

use std::io::{self, Read, Write};

use thalweg_checkpoint::crc;
use thalweg_tensor::Reservation;

use crate::record_error::RecordError;

/// Largest number of data bytes of a record: that of a protobuf message.
pub const MAX_RECORD_BYTES: usize = i32::MAX as usize;

/// Number of bytes of a record before its data: the length, and the checksum of the length.
pub(super) const HEADER_BYTES: usize = 12;
/// Number of bytes of a record after its data: the checksum.
pub(super) const FOOTER_BYTES: usize = 4;
/// First part of a record of a source without a size that memory is taken for, in bytes; the next parts double it.
const STEP_BYTES: usize = 64 << 10;

/// Writes a record with these bytes as its data.
///
/// # Errors
/// Those of writing.
pub fn write_record(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&header(bytes.len()))?;
    to.write_all(bytes)?;
    to.write_all(&crc::masked(bytes).to_le_bytes())
}

/// Appends a record to `to`; `append_data` appends the record's data.
pub fn append_record(to: &mut Vec<u8>, append_data: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    to.extend_from_slice(&[0; HEADER_BYTES]);
    append_data(to);
    let data = start + HEADER_BYTES;
    let header = header(to.len() - data);
    let checksum = crc::masked(&to[data..]);
    to[start..data].copy_from_slice(&header);
    to.extend_from_slice(&checksum.to_le_bytes());
}

fn header(data_bytes: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let (length, checksum) = header.split_at_mut(8);
    length.copy_from_slice(&(data_bytes as u64).to_le_bytes());
    checksum.copy_from_slice(&crc::masked(length).to_le_bytes());
    header
}

/// Reads the records of a source one at a time.
///
/// A record never takes more memory than the source has bytes.
#[derive(Debug)]
pub struct RecordReader<R> {
    from: R,
    /// Position of the next record.
    offset: u64,
    /// Bytes of a record whose data do not match their checksum: they are passed over.
    damaged: u64,
    /// Number of bytes of the source, if it is known.
    size: Option<u64>,
    data: Vec<u8>,
}

impl<R: Read> RecordReader<R> {
    /// Reads from the first record on.
    pub fn new(from: R) -> RecordReader<R> {
        RecordReader {
            from,
            offset: 0,
            damaged: 0,
            size: None,
            data: Vec::new(),
        }
    }

    /// Reads a source of a known size, in bytes, from the record at a position on; it stands there. A record that is
    /// longer than what is left is an error before its data are read.
    pub fn with_size(from: R, size: u64, offset: u64) -> RecordReader<R> {
        RecordReader {
            offset,
            size: Some(size),
            ..RecordReader::new(from)
        }
    }

    /// Reads a source of unknown size from the record at a position on; it stands there.
    pub fn starting_at(from: R, offset: u64) -> RecordReader<R> {
        RecordReader {
            offset,
            ..RecordReader::new(from)
        }
    }

    /// Number of bytes of the records that were read: the position of the next one, or of the one that is damaged.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the data of the next record, and `None` where the source ends after a record.
    ///
    /// After [`RecordError::DataChecksum`], the record after the damaged one comes next. After another error there is
    /// nothing more to read.
    ///
    /// # Errors
    /// The source cannot be read, ends inside a record, or has something that is no record.
    pub fn read(&mut self) -> Result<Option<&[u8]>, RecordError> {
        let mut data = std::mem::take(&mut self.data);
        let read = self.read_into(&mut data);
        self.data = data;
        Ok(read?.then_some(&self.data))
    }

    /// Puts the data of the next record into `to`, in place of what it holds, and returns `false` where the source ends
    /// after a record.
    ///
    /// # Errors
    /// As [`RecordReader::read`].
    pub fn read_into(&mut self, to: &mut Vec<u8>) -> Result<bool, RecordError> {
        self.read_counted(to, &mut Reservation::of(None))
    }

    /// As [`RecordReader::read_into`]; `held` grows by the bytes of the record before they are read. A compressed file may
    /// have records of any length.
    ///
    /// # Errors
    /// As [`RecordReader::read`], and [`RecordError::Memory`].
    pub fn read_counted(
        &mut self,
        to: &mut Vec<u8>,
        held: &mut Reservation,
    ) -> Result<bool, RecordError> {
        to.clear();
        let Some(length) = self.read_length()? else {
            return Ok(false);
        };
        let rest = length + FOOTER_BYTES;
        // A known size was checked against what is left. Without one, the buffer grows with the bytes that arrive.
        let mut step = match self.size {
            Some(_) => rest,
            None => rest.min(STEP_BYTES),
        };
        while to.len() < rest {
            let memory = RecordError::Memory {
                bytes: to.len() + step,
            };
            if !held.grow(step) {
                return Err(memory);
            }
            to.try_reserve_exact(step).map_err(|_| memory)?;
            let read = (&mut self.from).take(step as u64).read_to_end(to)?;
            if read < step {
                break;
            }
            step = to.len().min(rest - to.len());
        }
        let Some((data, checksum)) = to.split_at_checked(length) else {
            return Err(RecordError::Truncated);
        };
        if checksum.len() < FOOTER_BYTES {
            return Err(RecordError::Truncated);
        }
        let record = (HEADER_BYTES + rest) as u64;
        if crc::masked(data) != little_endian(checksum) as u32 {
            self.damaged = record;
            return Err(RecordError::DataChecksum);
        }
        to.truncate(length);
        self.offset += record;
        Ok(true)
    }

    /// `true` if the size of the source is known.
    pub(super) fn has_size(&self) -> bool {
        self.size.is_some()
    }

    /// Passes over the data of the next record with a function that moves the source by so many bytes; `false` where the
    /// source ends after a record. A source without a size ends where it ends.
    pub(super) fn pass_over(
        &mut self,
        seek: impl FnOnce(&mut R, i64) -> io::Result<()>,
    ) -> Result<bool, RecordError> {
        let Some(length) = self.read_length()? else {
            return Ok(false);
        };
        let rest = length + FOOTER_BYTES;
        seek(&mut self.from, rest as i64)?;
        self.offset += (HEADER_BYTES + rest) as u64;
        Ok(true)
    }

    /// Moves to a record at a position with a function that moves the source by so many bytes.
    pub(super) fn jump(
        &mut self,
        offset: u64,
        seek: impl FnOnce(&mut R, i64) -> io::Result<()>,
    ) -> io::Result<()> {
        let here = self.offset + std::mem::take(&mut self.damaged);
        seek(&mut self.from, offset.wrapping_sub(here) as i64)?;
        self.offset = offset;
        Ok(())
    }

    /// Reads the header of the next record, and returns the length of its data. `None` where the source ends.
    fn read_length(&mut self) -> Result<Option<usize>, RecordError> {
        self.offset += std::mem::take(&mut self.damaged);
        let mut header = [0; HEADER_BYTES];
        match self.fill(&mut header)? {
            HEADER_BYTES => {}
            0 => return Ok(None),
            _ => return Err(RecordError::Truncated),
        }
        let length = data_bytes(&header)?;
        let whole = (HEADER_BYTES + length + FOOTER_BYTES) as u64;
        match self.size.map(|size| size.saturating_sub(self.offset)) {
            Some(left) if whole > left => Err(RecordError::Truncated),
            _ => Ok(Some(length)),
        }
    }

    /// Reads until `to` is full or the source ends, and returns the number of bytes.
    fn fill(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < to.len() {
            match self.from.read(&mut to[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }
}

/// Number of data bytes of the record with this header.
pub(super) fn data_bytes(header: &[u8; HEADER_BYTES]) -> Result<usize, RecordError> {
    let (length, checksum) = header.split_at(8);
    if crc::masked(length) != little_endian(checksum) as u32 {
        return Err(RecordError::LengthChecksum);
    }
    match usize::try_from(little_endian(length)) {
        Ok(length) if length <= MAX_RECORD_BYTES => Ok(length),
        _ => Err(RecordError::TooLong),
    }
}

pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |n, &byte| n << 8 | u64::from(byte))
}
