//! TFRecord files: records of bytes with their length and masked CRC-32C checksums.
//!
//! A record is its length (`u64`, little-endian), the checksum of the length, the data, and the checksum of the data.
//! Event files are files of such records too. Source: TensorFlow's `core/lib/io/record_writer.h`.
//!
//! ```
//! use thalweg_data::{RecordReader, write_record};
//!
//! let mut file = Vec::new();
//! write_record(&mut file, b"abc")?;
//! // 8 bytes of length, 4 of its checksum, 3 of data, 4 of their checksum.
//! assert_eq!(file.len(), 8 + 4 + 3 + 4);
//!
//! let mut records = RecordReader::new(&file[..]);
//! assert_eq!(records.read()?, Some(&b"abc"[..]));
//! assert_eq!(records.read()?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compression;
mod file;
mod framing;
mod index;
#[cfg(test)]
mod tests;

pub use compression::{Compression, RecordWriter};
pub use file::{RecordFile, RecordOptions};
pub use framing::{MAX_RECORD_BYTES, RecordReader, append_record, write_record};
pub use index::RecordIndex;
