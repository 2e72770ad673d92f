//! Reads by position, from a file or from bytes in memory.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::DataError;

/// A file of a known length that is read by position. Several threads may read it.
#[derive(Debug)]
pub(crate) struct PositionedFile {
    path: PathBuf,
    source: Source,
    len: u64,
}

#[derive(Debug)]
enum Source {
    File(File),
    Bytes(Vec<u8>),
}

impl PositionedFile {
    pub(crate) fn open(path: &Path) -> Result<PositionedFile, DataError> {
        let wrong = |source| DataError::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(wrong)?;
        let about = file.metadata().map_err(wrong)?;
        if !about.is_file() {
            return Err(wrong(io::Error::other("it is no plain file")));
        }
        Ok(PositionedFile {
            path: path.to_owned(),
            source: Source::File(file),
            len: about.len(),
        })
    }

    pub(crate) fn of_bytes(bytes: Vec<u8>, name: &Path) -> PositionedFile {
        PositionedFile {
            path: name.to_owned(),
            len: bytes.len() as u64,
            source: Source::Bytes(bytes),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn error(&self, offset: u64, reason: impl Into<String>) -> DataError {
        DataError::Format {
            path: self.path.clone(),
            offset,
            reason: reason.into(),
        }
    }

    /// Fills `to` with the bytes from `at` on.
    pub(crate) fn read(&self, at: u64, to: &mut [u8]) -> Result<(), DataError> {
        let read = match &self.source {
            Source::File(file) => read_exact_at(file, to, at),
            Source::Bytes(bytes) => {
                let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                match from.and_then(|from| from.get(..to.len())) {
                    Some(from) => {
                        to.copy_from_slice(from);
                        Ok(())
                    }
                    None => Err(io::ErrorKind::UnexpectedEof.into()),
                }
            }
        };
        read.map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => self.error(at, "the file ends here: get it again"),
            _ => DataError::Io {
                path: self.path.clone(),
                source,
            },
        })
    }

    /// The bytes of a place. Its length is checked before memory is taken.
    pub(crate) fn bytes(&self, at: u64, length: u64) -> Result<Vec<u8>, DataError> {
        let left = self.len.saturating_sub(at);
        if length > left {
            let reason =
                format!("{length} bytes are cut off: there are {left}. Get the file again");
            return Err(self.error(at, reason));
        }
        let mut bytes = vec![0; length as usize];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, to: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, to, at)
}

#[cfg(windows)]
fn read_exact_at(file: &File, to: &mut [u8], at: u64) -> io::Result<()> {
    // Reads of several threads do not use the file's cursor.
    let (mut rest, mut at) = (to, at);
    while !rest.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, rest, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => (rest, at) = (&mut rest[n..], at + n as u64),
        }
    }
    Ok(())
}
