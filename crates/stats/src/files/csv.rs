//! Rows of CSV files.

use std::fs::File;
use std::path::Path;

use csv::{ByteRecord, Reader, ReaderBuilder};

use super::part::{Blocks, Matrix, Part, error_in};
use crate::error::StatsError;

/// The longest field of a row, in bytes, that an error shows.
const SHOWN: usize = 40;

fn open(path: &Path) -> Result<Reader<File>, StatsError> {
    let reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_path(path);
    reader.map_err(|e| error_in(path, e))
}

fn number(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The number of columns.
///
/// # Errors
/// The file is not read, or has no rows.
pub(super) fn width(path: &Path) -> Result<usize, StatsError> {
    let mut row = ByteRecord::new();
    let read = open(path)?
        .read_byte_record(&mut row)
        .map_err(|e| error_in(path, e))?;
    match read {
        true => Ok(row.len()),
        false => Err(error_in(path, "it is empty: a file has a header at least")),
    }
}

/// Reads the rows of a rank.
///
/// # Errors
/// A row that is not read, one of another number of columns, or a field that is no number.
pub(super) fn read(
    part: &Part<'_>,
    take: &mut dyn FnMut(Matrix) -> bool,
) -> Result<(), StatsError> {
    let mut reader = open(part.path)?;
    let mut blocks = Blocks::<f64>::new(part, take);
    let (mut row, mut number_of_row) = (ByteRecord::new(), 0);
    while reader
        .read_byte_record(&mut row)
        .map_err(|e| part.error(e))?
    {
        let line = row.position().map_or(0, |p| p.line());
        if number_of_row == 0 && line == 1 && row.iter().all(|field| number(field).is_none()) {
            continue;
        }
        if row.len() != part.width {
            let reason = format!(
                "line {line} has {} columns, the first one {}",
                row.len(),
                part.width
            );
            return Err(part.error(reason));
        }
        if part.has(number_of_row) {
            for (column, field) in row.iter().enumerate() {
                let value = number(field).ok_or_else(|| {
                    let text = String::from_utf8_lossy(&field[..field.len().min(SHOWN)]);
                    part.error(format!(
                        "line {line}, column {}: '{text}' is no number",
                        column + 1
                    ))
                })?;
                blocks.rows.push(value);
            }
            if !blocks.turn(false)? {
                return Ok(());
            }
        }
        number_of_row += 1;
    }
    blocks.turn(true).map(|_| ())
}
