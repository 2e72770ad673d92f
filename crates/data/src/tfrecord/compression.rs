//! Compression of whole TFRecord files, and a writer of files.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::framing::{HEADER_BYTES, data_bytes, write_record};
use crate::error::DataError;

/// Compression of a whole TFRecord file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// The records themselves.
    #[default]
    None,
    /// One gzip stream, or several.
    Gzip,
    /// One zlib stream.
    Zlib,
}

impl Compression {
    /// The compression of a file that starts with these bytes. A plain file starts with a length and its checksum.
    pub(super) fn detect(first: &[u8]) -> Compression {
        let header = first.first_chunk::<HEADER_BYTES>();
        if header.is_some_and(|header| data_bytes(header).is_ok()) {
            return Compression::None;
        }
        match first {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            // RFC 1950: method 8, and a check of the first two bytes.
            [a, b, ..] if a & 0xf == 8 && (u16::from(*a) << 8 | u16::from(*b)) % 31 == 0 => {
                Compression::Zlib
            }
            _ => Compression::None,
        }
    }

    /// The unpacked bytes of a file that is open.
    ///
    /// # Errors
    /// [`DataError::WithoutGzip`]: the file is compressed, and that is not built in.
    pub fn unpacked(
        self,
        file: BufReader<File>,
        path: &Path,
    ) -> Result<impl Read + Send + use<>, DataError> {
        self.source(file, path)
    }

    /// As [`Compression::unpacked`].
    pub(super) fn source(self, file: BufReader<File>, path: &Path) -> Result<Source, DataError> {
        if cfg!(not(feature = "gzip")) && self != Compression::None {
            return Err(DataError::WithoutGzip {
                path: path.to_owned(),
            });
        }
        Ok(match self {
            #[cfg(feature = "gzip")]
            Compression::Gzip => {
                Source::Packed(Box::new(flate2::bufread::MultiGzDecoder::new(file)))
            }
            #[cfg(feature = "gzip")]
            Compression::Zlib => Source::Packed(Box::new(flate2::bufread::ZlibDecoder::new(file))),
            _ => Source::Plain(file),
        })
    }
}

/// The unpacked bytes of a file.
pub(super) enum Source {
    /// They can be passed over.
    Plain(BufReader<File>),
    #[cfg(feature = "gzip")]
    Packed(Box<dyn Read + Send>),
}

impl Read for Source {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Plain(file) => file.read(to),
            #[cfg(feature = "gzip")]
            Source::Packed(from) => from.read(to),
        }
    }

    fn read_to_end(&mut self, to: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Source::Plain(file) => file.read_to_end(to),
            #[cfg(feature = "gzip")]
            Source::Packed(from) => from.read_to_end(to),
        }
    }
}

/// Writes a TFRecord file.
///
/// ```
/// use thalweg_data::{Compression, RecordFile, RecordOptions, RecordWriter};
///
/// # fn main() -> Result<(), thalweg_data::DataError> {
/// let path = std::env::temp_dir().join(format!("thalweg-records-{}", std::process::id()));
/// let mut writer = RecordWriter::create(&path, Compression::None)?;
/// writer.write(b"abc")?;
/// writer.finish()?;
///
/// let mut file = RecordFile::open(&path, RecordOptions::default())?;
/// assert_eq!(file.read()?, Some(&b"abc"[..]));
/// # let _ = std::fs::remove_file(path);
/// # Ok(())
/// # }
/// ```
pub struct RecordWriter {
    path: PathBuf,
    to: Packer,
}

enum Packer {
    Plain(BufWriter<File>),
    #[cfg(feature = "gzip")]
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    #[cfg(feature = "gzip")]
    Zlib(flate2::write::ZlibEncoder<BufWriter<File>>),
}

impl RecordWriter {
    /// Makes a file, in place of one that is there.
    ///
    /// # Errors
    /// [`DataError::Io`]: it cannot be made. [`DataError::WithoutGzip`]: compression is not built in.
    pub fn create(
        path: impl AsRef<Path>,
        compression: Compression,
    ) -> Result<RecordWriter, DataError> {
        let path = path.as_ref().to_owned();
        if cfg!(not(feature = "gzip")) && compression != Compression::None {
            return Err(DataError::WithoutGzip { path });
        }
        let file = File::create(&path).map_err(|source| DataError::Io {
            path: path.clone(),
            source,
        })?;
        let file = BufWriter::with_capacity(1 << 18, file);
        let to = match compression {
            #[cfg(feature = "gzip")]
            Compression::Gzip => Packer::Gzip(flate2::write::GzEncoder::new(
                file,
                flate2::Compression::default(),
            )),
            #[cfg(feature = "gzip")]
            Compression::Zlib => Packer::Zlib(flate2::write::ZlibEncoder::new(
                file,
                flate2::Compression::default(),
            )),
            _ => Packer::Plain(file),
        };
        Ok(RecordWriter { path, to })
    }

    /// Writes a record with these bytes as its data.
    ///
    /// # Errors
    /// [`DataError::Io`].
    pub fn write(&mut self, data: &[u8]) -> Result<(), DataError> {
        let wrote = match &mut self.to {
            Packer::Plain(to) => write_record(to, data),
            #[cfg(feature = "gzip")]
            Packer::Gzip(to) => write_record(to, data),
            #[cfg(feature = "gzip")]
            Packer::Zlib(to) => write_record(to, data),
        };
        wrote.map_err(|source| DataError::Io {
            path: self.path.clone(),
            source,
        })
    }

    /// Writes the end of the file. A file without it can be cut off.
    ///
    /// # Errors
    /// [`DataError::Io`].
    pub fn finish(self) -> Result<(), DataError> {
        let mut file = match self.to {
            Packer::Plain(to) => Ok(to),
            #[cfg(feature = "gzip")]
            Packer::Gzip(to) => to.finish(),
            #[cfg(feature = "gzip")]
            Packer::Zlib(to) => to.finish(),
        };
        let flushed = file.as_mut().map(Write::flush);
        let done = match flushed {
            Ok(flushed) => flushed,
            Err(_) => file.map(drop),
        };
        done.map_err(|source| DataError::Io {
            path: self.path,
            source,
        })
    }
}
