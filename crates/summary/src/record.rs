//! Records: bytes with their length and checksums, as TensorFlow's files of records have them.
//!
//! ```
//! let mut file = Vec::new();
//! thalweg_summary::write_record(&mut file, b"abc")?;
//! // 8 bytes of length, 4 of its checksum, 3 of data, 4 of theirs.
//! assert_eq!(file.len(), 8 + 4 + 3 + 4);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, Write};

use thalweg_checkpoint::crc;

/// The most bytes that a message of protobuf may have.
pub(crate) const MOST_BYTES: usize = i32::MAX as usize;

/// Bytes of a record before its data: the length, and the length's checksum.
pub(crate) const HEAD: usize = 12;
/// Bytes of a record behind its data: the checksum.
pub(crate) const TAIL: usize = 4;

/// Writes a record as TensorFlow's files of records have it: length, checksum of the length, bytes,
/// checksum of the bytes. Source: TensorFlow's `core/lib/io/record_writer.h`.
///
/// # Errors
/// Those of writing.
pub fn write_record(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&head(bytes.len()))?;
    to.write_all(bytes)?;
    to.write_all(&crc::masked(bytes).to_le_bytes())
}

/// The head of a record: length, and checksum of the length.
fn head(bytes: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let (length, sum) = head.split_at_mut(8);
    length.copy_from_slice(&(bytes as u64).to_le_bytes());
    sum.copy_from_slice(&crc::masked(length).to_le_bytes());
    head
}

/// Adds a record to `to`, whose data `make` appends.
pub(crate) fn append(to: &mut Vec<u8>, make: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    to.extend_from_slice(&[0; HEAD]);
    make(to);
    let data = start + HEAD;
    let head = head(to.len() - data);
    let sum = crc::masked(&to[data..]);
    to[start..data].copy_from_slice(&head);
    to.extend_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record that TensorFlow's TFRecordWriter writes for b"abc".
    const RECORD: [u8; 19] = [
        3, 0, 0, 0, 0, 0, 0, 0, 176, 153, 73, 14, 97, 98, 99, 110, 87, 241, 33,
    ];

    #[test]
    fn records_are_tensorflows() {
        let mut written = Vec::new();
        write_record(&mut written, b"abc").unwrap();
        assert_eq!(written, RECORD);
        append(&mut written, |to| to.extend_from_slice(b"abc"));
        assert_eq!(written[RECORD.len()..], RECORD);
    }
}
