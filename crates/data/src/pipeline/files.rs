//! Sources in files: Records, Lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use super::chain::Pipeline;
use super::stage::Stage;
use crate::error::DataError;
use crate::tfrecord::RecordReader;

/// Files that are read one after the other.
struct Files {
    paths: Vec<PathBuf>,
    /// Number of the next one.
    next: usize,
}

impl Files {
    fn new(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Files {
        Files {
            paths: paths.into_iter().map(Into::into).collect(),
            next: 0,
        }
    }

    /// Opens the next file.
    fn open(&mut self) -> Result<Option<BufReader<File>>, DataError> {
        let Some(path) = self.paths.get(self.next) else {
            return Ok(None);
        };
        let file = File::open(path).map_err(|source| DataError::Io {
            path: path.clone(),
            source,
        })?;
        self.next += 1;
        Ok(Some(BufReader::with_capacity(1 << 18, file)))
    }

    /// The file that is read.
    fn path(&self) -> PathBuf {
        self.paths[self.next - 1].clone()
    }
}

/// Records of TFRecord files. Built by [`records`].
pub struct Records {
    files: Files,
    reader: Option<RecordReader<BufReader<File>>>,
    /// Number of the next record in its file.
    record: u64,
}

/// The records of TFRecord files, one file after the other. Checksums are verified.
pub fn records(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Pipeline<Records> {
    Pipeline::new(Records {
        files: Files::new(paths),
        reader: None,
        record: 0,
    })
}

impl Records {
    /// Calls a function with the next record, of whichever file.
    fn read<T>(&mut self, of: impl Fn(&[u8]) -> T) -> Result<Option<T>, DataError> {
        loop {
            let Some(reader) = &mut self.reader else {
                let Some(file) = self.files.open()? else {
                    return Ok(None);
                };
                self.reader = Some(RecordReader::new(file));
                self.record = 0;
                continue;
            };
            let offset = reader.offset();
            match reader.read() {
                Ok(Some(record)) => {
                    self.record += 1;
                    return Ok(Some(of(record)));
                }
                Ok(None) => self.reader = None,
                Err(source) => {
                    return Err(DataError::Record {
                        path: self.files.path(),
                        record: self.record,
                        offset,
                        source,
                    });
                }
            }
        }
    }
}

impl Stage for Records {
    type Item = Vec<u8>;

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.files.next = 0;
        self.reader = None;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, DataError> {
        self.read(<[u8]>::to_vec)
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        for passed in 0..count {
            if self.read(|_| ())?.is_none() {
                return Ok(passed);
            }
        }
        Ok(count)
    }
}

/// Largest number of bytes of a line.
const MAX_LINE: u64 = 64 << 20;

/// Lines of text files. Built by [`text_lines`].
pub struct Lines {
    files: Files,
    reader: Option<BufReader<File>>,
}

/// The lines of text files, one file after the other, without their ends.
pub fn text_lines(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Pipeline<Lines> {
    Pipeline::new(Lines {
        files: Files::new(paths),
        reader: None,
    })
}

impl Stage for Lines {
    type Item = String;

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.files.next = 0;
        self.reader = None;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<String>, DataError> {
        loop {
            let Some(reader) = &mut self.reader else {
                let Some(file) = self.files.open()? else {
                    return Ok(None);
                };
                self.reader = Some(file);
                continue;
            };
            let mut line = Vec::new();
            let read = reader.take(MAX_LINE).read_until(b'\n', &mut line);
            let wrong = |source| DataError::Io {
                path: self.files.path(),
                source,
            };
            if read.map_err(wrong)? == 0 {
                self.reader = None;
                continue;
            }
            let whole = line.ends_with(b"\n") || (line.len() as u64) < MAX_LINE;
            if !whole {
                let reason = format!("a line is longer than {MAX_LINE} bytes");
                return Err(wrong(std::io::Error::other(reason)));
            }
            while line.ends_with(b"\n") || line.ends_with(b"\r") {
                line.pop();
            }
            let text = String::from_utf8(line).map_err(|e| wrong(std::io::Error::other(e)))?;
            return Ok(Some(text));
        }
    }
}
