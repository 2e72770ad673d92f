//! Sources in files: Records, Lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::iterator::Pipeline;
use super::stage::Stage;
use crate::error::DataError;
use crate::tfrecord::{Compression, RecordFile, RecordIndex, RecordOptions};

/// Records of TFRecord files. Built by [`records`] and [`records_with`].
pub struct Records {
    files: Vec<RecordsOfFile>,
    options: RecordOptions,
    /// Number of the running file, and of the next record in it.
    file: usize,
    record: u64,
    /// The running file; `None` until a record of it is read.
    reader: Option<RecordFile>,
}

struct RecordsOfFile {
    path: PathBuf,
    scan: Scan,
}

enum Scan {
    Missing,
    /// Records of the file can only be read in order.
    Impossible,
    Done(RecordIndex),
}

/// The records of TFRecord files, one file after the other. Checksums are verified. First bytes decide how a file is
/// compressed.
///
/// Records of uncompressed files are passed over without their data, and whole epochs with one scan of the lengths.
pub fn records(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Pipeline<Records> {
    records_with(paths, RecordOptions::default())
}

/// As [`records`], with options. Where damaged records are skipped, they do not count in the position, and passing over
/// records reads them.
pub fn records_with(
    paths: impl IntoIterator<Item = impl Into<PathBuf>>,
    options: RecordOptions,
) -> Pipeline<Records> {
    let files = paths.into_iter().map(|path| RecordsOfFile {
        path: path.into(),
        scan: Scan::Missing,
    });
    Pipeline::new(Records {
        files: files.collect(),
        options,
        file: 0,
        record: 0,
        reader: None,
    })
}

impl Records {
    /// The running file, at its next record; `None` after the last file.
    fn running(&mut self) -> Result<Option<&mut RecordFile>, DataError> {
        let Some(file) = self.files.get(self.file) else {
            return Ok(None);
        };
        if self.reader.is_none() {
            let offset = match &file.scan {
                Scan::Done(index) => index.offset(self.record),
                _ => 0,
            };
            let opened = RecordFile::open_at(&file.path, &self.options, self.record, offset)?;
            self.reader = Some(opened);
        }
        Ok(self.reader.as_mut())
    }

    fn next_file(&mut self) {
        self.file += 1;
        self.record = 0;
        self.reader = None;
    }

    /// Puts the next record into `to`; `false` after the last.
    fn read_into(&mut self, to: &mut Vec<u8>) -> Result<bool, DataError> {
        while let Some(reader) = self.running()? {
            if reader.read_into(to)? {
                self.record = reader.record();
                return Ok(true);
            }
            self.next_file();
        }
        Ok(false)
    }

    /// The index of a file; `None` if it has none.
    fn index(&mut self, file: usize) -> Result<Option<&RecordIndex>, DataError> {
        let file = &mut self.files[file];
        if let Scan::Missing = file.scan {
            file.scan = match scannable(&file.path, &self.options)? {
                true => Scan::Done(RecordIndex::scan(&file.path)?),
                false => Scan::Impossible,
            };
        }
        match &file.scan {
            Scan::Done(index) => Ok(Some(index)),
            _ => Ok(None),
        }
    }
}

/// `true` if the positions of all records follow from their lengths, and all of them count.
fn scannable(path: &Path, options: &RecordOptions) -> Result<bool, DataError> {
    let one_by_one = options.skip_damaged.is_some() || (path.exists() && !path.is_file());
    Ok(!one_by_one && {
        let file = RecordFile::open_at(path, options, 0, 0)?;
        file.compression() == Compression::None
    })
}

impl Stage for Records {
    type Item = Vec<u8>;

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.file = 0;
        self.record = 0;
        self.reader = None;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, DataError> {
        let mut data = Vec::new();
        Ok(self.read_into(&mut data)?.then_some(data))
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let mut passed = 0;
        while passed < count {
            let Some(file) = self.files.get(self.file) else {
                break;
            };
            let Scan::Done(index) = &file.scan else {
                let Some(reader) = self.running()? else {
                    break;
                };
                let (more, record) = (reader.pass_over()?, reader.record());
                match more {
                    true => self.record = record,
                    false => self.next_file(),
                }
                passed += u64::from(more);
                continue;
            };
            let left = index.len().saturating_sub(self.record);
            let own = left.min(count - passed);
            self.record += own;
            passed += own;
            if own == left {
                self.next_file();
            } else if let Some(reader) = &mut self.reader {
                reader.jump(self.record, index.offset(self.record))?;
            }
        }
        Ok(passed)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        let mut all = 0;
        for file in 0..self.files.len() {
            match self.index(file)? {
                Some(index) => all += index.len(),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }
}

/// Largest number of bytes of a line.
const MAX_LINE: u64 = 64 << 20;

/// Lines of text files. Built by [`text_lines`].
pub struct Lines {
    paths: Vec<PathBuf>,
    /// Number of the next file.
    next: usize,
    reader: Option<BufReader<File>>,
}

/// The lines of text files, one file after the other, without their ends.
pub fn text_lines(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Pipeline<Lines> {
    Pipeline::new(Lines {
        paths: paths.into_iter().map(Into::into).collect(),
        next: 0,
        reader: None,
    })
}

impl Stage for Lines {
    type Item = String;

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.next = 0;
        self.reader = None;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<String>, DataError> {
        loop {
            let Some(reader) = &mut self.reader else {
                let Some(path) = self.paths.get(self.next) else {
                    return Ok(None);
                };
                let file = File::open(path).map_err(|source| DataError::Io {
                    path: path.clone(),
                    source,
                })?;
                self.next += 1;
                self.reader = Some(BufReader::with_capacity(1 << 18, file));
                continue;
            };
            let mut line = Vec::new();
            let read = reader.take(MAX_LINE).read_until(b'\n', &mut line);
            let wrong = |source| DataError::Io {
                path: self.paths[self.next - 1].clone(),
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
