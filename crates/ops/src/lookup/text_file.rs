//! Entries of a table from the lines of a text file. The rules are those of TensorFlow's `TextFileLineIterator`.

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{DType, Tensor};

use super::cells::Cells;
use super::hash_rows::{HashRows, Known};
use super::table::Table;
use crate::files::record_files::Format;
use crate::strings::parse;

/// Index of a column that stands for the number of the line.
pub(super) const LINE_NUMBER: i64 = -1;
/// Index of a column that stands for the whole line.
pub(super) const WHOLE_LINE: i64 = -2;

/// The places of keys and values in a file.
pub(super) struct TextEntries<'a> {
    file: &'a [u8],
    columns: [(i64, DType); 2],
    /// The lines that are read; negative for all.
    vocab_size: i64,
    delimiter: u8,
    offset: i64,
}

impl<'a> TextEntries<'a> {
    /// The entries that a node asks for.
    ///
    /// # Errors
    /// The file has no name, the delimiter is no byte, or a column does not fit the table's dtypes.
    pub(super) fn of(cx: &TensorCx<'a>, table: &Table) -> Result<TextEntries<'a>, KernelError> {
        let attrs = cx.attrs();
        let [delimiter] = *attrs.str("delimiter").as_bytes() else {
            return Err(KernelError::Invalid(
                "delimiter should be only 1 char".to_owned(),
            ));
        };
        let columns = [("key", table.key), ("value", table.value)].map(|(what, dtype)| {
            let index = attrs.int(&format!("{what}_index"));
            (what, index, dtype)
        });
        for (what, index, dtype) in columns {
            let whole = dtype == DType::String || DType::INDICES.contains(&dtype);
            if index == LINE_NUMBER && dtype != DType::I64 {
                return Err(KernelError::Invalid(format!(
                    "{what}_index for line number requires table {what} dtype of i64, got {dtype}"
                )));
            }
            if index == WHOLE_LINE && !whole {
                return Err(KernelError::Invalid(format!(
                    "{what}_index for whole line requires string or integer table {what}, got {dtype}"
                )));
            }
        }
        let columns = columns.map(|(_, index, dtype)| (index, dtype));
        let entries = TextEntries::of_columns(cx, 1, columns, attrs.int("vocab_size"))?;
        Ok(TextEntries {
            delimiter,
            offset: attrs.int("offset"),
            ..entries
        })
    }

    /// The entries of these columns of the file that an input names.
    ///
    /// # Errors
    /// The file has no name.
    pub(super) fn of_columns(
        cx: &TensorCx<'a>,
        input: usize,
        columns: [(i64, DType); 2],
        vocab_size: i64,
    ) -> Result<TextEntries<'a>, KernelError> {
        let Some(file) = cx.strings(input)?.only() else {
            return Err(KernelError::Invalid(
                "filename should be a single string".to_owned(),
            ));
        };
        if file.is_empty() {
            return Err(KernelError::Invalid("filename cannot be empty".to_owned()));
        }
        Ok(TextEntries {
            file,
            columns,
            vocab_size,
            delimiter: b'\t',
            offset: 0,
        })
    }

    fn wrong(&self, what: &str) -> KernelError {
        KernelError::Invalid(format!("{}: {what}", String::from_utf8_lossy(self.file)))
    }

    /// Adds the entries of all lines.
    ///
    /// # Errors
    /// The file cannot be read, has no lines, an empty line, too few columns or lines, or another dtype.
    pub(super) fn read(&self, cx: &TensorCx<'_>, rows: &mut HashRows) -> Result<(), KernelError> {
        let (mut lines, mut stop) = (Format::LINES.open(cx, self.file, 0)?, cx.stop_check());
        let mut count = 0;
        while count != self.vocab_size {
            stop.tick()?;
            let Some(line) = lines.next(cx.memory())? else {
                break;
            };
            let [key, value] = self.entry(&line.data, count)?;
            let key = Cells::of(&key)?.keys()?;
            rows.put(key.at(0), Cells::of(&value)?, 0, Known::Refuse)?;
            count += 1;
        }
        if count < self.vocab_size {
            return Err(self.wrong(&format!(
                "Invalid vocab_size: expected {} lines but got {count}",
                self.vocab_size
            )));
        }
        match count {
            0 => Err(KernelError::OutOfRange(format!(
                "{}: the file has no lines",
                String::from_utf8_lossy(self.file)
            ))),
            _ => Ok(()),
        }
    }

    /// Key and value of a line; `number` counts lines from 0.
    fn entry(&self, line: &[u8], number: i64) -> Result<[Tensor; 2], KernelError> {
        if line.is_empty() {
            return Err(self.wrong(&format!("line {} is an empty line", number + 1)));
        }
        let [key, value] = self.columns.map(|column| self.cell(line, number, column));
        Ok([key?, value?])
    }

    fn cell(
        &self,
        line: &[u8],
        number: i64,
        (index, dtype): (i64, DType),
    ) -> Result<Tensor, KernelError> {
        let token = match index {
            LINE_NUMBER => return Ok(Tensor::scalar(number.wrapping_add(self.offset))),
            WHOLE_LINE => line,
            _ => {
                let mut columns = line.split(|&b| b == self.delimiter);
                let at = usize::try_from(index).unwrap_or(usize::MAX);
                columns.nth(at).ok_or_else(|| {
                    let found = line.split(|&b| b == self.delimiter).count();
                    self.wrong(&format!(
                        "Invalid number of columns in line {} ({}): expected at least {}, got {found}",
                        number + 1,
                        line.escape_ascii(),
                        index + 1
                    ))
                })?
            }
        };
        let not_valid = |_| {
            self.wrong(&format!(
                "field '{}' in line {} is not a valid {dtype}",
                token.escape_ascii(),
                number + 1
            ))
        };
        Ok(match dtype {
            DType::String => Tensor::strings(&[], &[token])?,
            // TensorFlow adds the offset to this dtype alone.
            DType::I32 => {
                let value = parse::<i32>(token).map_err(not_valid)?;
                Tensor::scalar(value.wrapping_add(self.offset as i32))
            }
            DType::I64 => Tensor::scalar(parse::<i64>(token).map_err(not_valid)?),
            DType::F32 => Tensor::scalar(parse::<f32>(token).map_err(not_valid)?),
            DType::F64 => Tensor::scalar(parse::<f64>(token).map_err(not_valid)?),
            other => return Err(KernelError::DType(other)),
        })
    }
}
