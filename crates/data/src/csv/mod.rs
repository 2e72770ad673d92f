//! CSV files: rows of typed columns.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use thalweg_tensor::Tensor;

use crate::error::DataError;
use crate::pipeline::{Pipeline, Stage};

mod column;
#[cfg(test)]
mod tests;

pub use column::{Column, ColumnPlace};

/// Largest length of a row, in bytes.
const MAX_ROW_BYTES: usize = 1 << 20;
/// Largest number of columns of a file.
const MAX_COLUMNS: usize = 1 << 14;

/// Options of reading CSV files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// `true` if the first row of each file has the names of the columns.
    pub header: bool,
    /// The byte between columns.
    pub delimiter: u8,
    /// Texts that stand for a missing value, beside the empty one.
    pub missing: Vec<String>,
}

impl Default for CsvOptions {
    fn default() -> CsvOptions {
        CsvOptions {
            header: true,
            delimiter: b',',
            missing: Vec::new(),
        }
    }
}

/// Rows of CSV files. Built by [`csv()`].
pub struct Csv<const N: usize> {
    paths: Vec<PathBuf>,
    columns: [Column; N],
    options: CsvOptions,
    /// Number of the next file.
    next: usize,
    open: Option<Open>,
    row: ::csv::ByteRecord,
}

/// The running file.
struct Open {
    reader: ::csv::Reader<Limited>,
    /// Number of each column.
    places: Vec<usize>,
}

/// The rows of CSV files, one file after the other: a scalar of each of these columns. Fields may be quoted, as RFC 4180
/// has it. A row has up to 1 MiB.
///
/// ```
/// use thalweg_data::pipeline::Remainder;
/// use thalweg_data::{Column, CsvOptions, Vocabulary, csv};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), thalweg_data::DataError> {
/// let path = std::env::temp_dir().join(format!("thalweg-{}.csv", std::process::id()));
/// std::fs::write(&path, "age,sex\n22,male\n,female\n").expect("the folder can be written");
/// let columns = [
///     Column::floats("age").or(Tensor::from(30f32)),
///     Column::category("sex", Vocabulary::new(["female", "male"])),
/// ];
/// let rows = csv([&path], columns, CsvOptions::default());
/// let [age, sex] = rows.batch(2, Remainder::Drop).next().expect("there are two rows")?;
/// assert_eq!(age.to_vec::<f32>()?, [22.0, 30.0]);
/// assert_eq!(sex.to_vec::<i64>()?, [1, 0]);
/// # let _ = std::fs::remove_file(path);
/// # Ok(())
/// # }
/// ```
pub fn csv<const N: usize>(
    paths: impl IntoIterator<Item = impl Into<PathBuf>>,
    columns: [Column; N],
    options: CsvOptions,
) -> Pipeline<Csv<N>> {
    Pipeline::new(Csv {
        paths: paths.into_iter().map(Into::into).collect(),
        columns,
        options,
        next: 0,
        open: None,
        row: ::csv::ByteRecord::new(),
    })
}

/// A file of which a row can only read so many bytes.
struct Limited {
    file: File,
    left: usize,
}

impl Read for Limited {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let reason = format!("a row is longer than {MAX_ROW_BYTES} bytes: is a quote missing?");
            return Err(io::Error::other(reason));
        }
        let most = to.len().min(self.left);
        let read = self.file.read(&mut to[..most])?;
        self.left -= read;
        Ok(read)
    }
}

impl<const N: usize> Csv<N> {
    /// Reads the next row, of whichever file, without its values; `false` after the last.
    fn read(&mut self) -> Result<bool, DataError> {
        loop {
            let Some(open) = &mut self.open else {
                if self.next == self.paths.len() {
                    return Ok(false);
                }
                self.open = Some(self.open_next()?);
                self.next += 1;
                continue;
            };
            open.reader.get_mut().left = MAX_ROW_BYTES;
            let read = open.reader.read_byte_record(&mut self.row);
            if read.map_err(|e| wrong(&self.paths[self.next - 1], e))? {
                self.check_width(&self.row, self.next - 1)?;
                return Ok(true);
            }
            self.open = None;
        }
    }

    fn open_next(&self) -> Result<Open, DataError> {
        let path = &self.paths[self.next];
        let file = File::open(path).map_err(|source| DataError::Io {
            path: path.clone(),
            source,
        })?;
        let left = MAX_ROW_BYTES;
        let mut reader = ::csv::ReaderBuilder::new()
            .has_headers(self.options.header)
            .delimiter(self.options.delimiter)
            .from_reader(Limited { file, left });
        let names = match self.options.header {
            true => reader.byte_headers().map_err(|e| wrong(path, e))?.clone(),
            false => ::csv::ByteRecord::new(),
        };
        self.check_width(&names, self.next)?;
        let mut places = Vec::with_capacity(N);
        for column in &self.columns {
            let found = match &column.place {
                ColumnPlace::Number(number) => Some(*number),
                ColumnPlace::Name(name) => names.iter().position(|n| n == name.as_bytes()),
            };
            let missing = || DataError::Format {
                path: path.clone(),
                offset: 0,
                reason: format!("there is no column {}", column.place),
            };
            places.push(found.ok_or_else(missing)?);
        }
        Ok(Open { reader, places })
    }

    fn check_width(&self, row: &::csv::ByteRecord, file: usize) -> Result<(), DataError> {
        if row.len() <= MAX_COLUMNS {
            return Ok(());
        }
        Err(DataError::Format {
            path: self.paths[file].clone(),
            offset: row.position().map_or(0, |p| p.byte()),
            reason: format!("a row has {} columns, more than {MAX_COLUMNS}", row.len()),
        })
    }

    /// The values of the row that was read.
    fn values(&self) -> Result<Option<[Tensor; N]>, DataError> {
        let Some(open) = &self.open else {
            return Ok(None);
        };
        let mut values = Vec::with_capacity(N);
        for (column, place) in self.columns.iter().zip(&open.places) {
            let field = self.row.get(*place);
            let value = column.value(field, &self.options.missing);
            values.push(value.map_err(|reason| {
                let position = self.row.position();
                let (line, offset) = position.map_or((0, 0), |p| (p.line(), p.byte()));
                DataError::Format {
                    path: self.paths[self.next - 1].clone(),
                    offset,
                    reason: format!("line {line}, column {}: {reason}", column.place),
                }
            })?);
        }
        Ok(values.try_into().ok())
    }
}

fn wrong(path: &std::path::Path, error: ::csv::Error) -> DataError {
    let position = error.position();
    let (line, offset) = position.map_or((0, 0), |p| (p.line(), p.byte()));
    let path = path.to_owned();
    match error.into_kind() {
        ::csv::ErrorKind::Io(source) => DataError::Io { path, source },
        ::csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => DataError::Format {
            path,
            offset,
            reason: format!("line {line} has {len} columns, the lines before have {expected_len}"),
        },
        other => DataError::Format {
            path,
            offset,
            reason: format!("line {line}: {other:?}"),
        },
    }
}

impl<const N: usize> Stage for Csv<N> {
    type Item = [Tensor; N];

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.next = 0;
        self.open = None;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<[Tensor; N]>, DataError> {
        match self.read()? {
            true => self.values(),
            false => Ok(None),
        }
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        for passed in 0..count {
            if !self.read()? {
                return Ok(passed);
            }
        }
        Ok(count)
    }
}
