//! Rows of TFRecords: examples with a list of floats `x`, and a list `y` of targets.

use std::path::Path;

use thalweg_data::example::Example;
use thalweg_data::{RecordFile, RecordOptions};

use super::part::{Blocks, Matrix, Part, error_in};
use crate::error::StatsError;

fn source(error: thalweg_data::DataError) -> StatsError {
    StatsError::Source(error.into())
}

/// Appends the numbers of an example; returns how many there are of `x` and of `y`.
fn numbers(
    record: &[u8],
    path: &Path,
    targets: usize,
    to: &mut Vec<f32>,
) -> Result<(usize, usize), StatsError> {
    let example = Example::parse(record).map_err(source)?;
    let mut append = |key: &str| -> Result<usize, StatsError> {
        let floats = example.get(key).and_then(|feature| feature.floats());
        let floats = floats.ok_or_else(|| {
            error_in(
                path,
                format!("an example has no list of floats '{key}': features are 'x', targets 'y'"),
            )
        })?;
        let before = to.len();
        to.extend(floats.to_vec());
        Ok(to.len() - before)
    };
    let x = append("x")?;
    Ok((x, if targets == 0 { 0 } else { append("y")? }))
}

/// The number of columns.
///
/// # Errors
/// The file is not read, has no records, or its first example has no such lists.
pub(super) fn width(path: &Path, targets: usize) -> Result<usize, StatsError> {
    let mut file = RecordFile::open(path, RecordOptions::default()).map_err(source)?;
    let record = file.read().map_err(source)?;
    let record = record.ok_or_else(|| error_in(path, "it has no records"))?;
    let (x, y) = numbers(record, path, targets, &mut Vec::new())?;
    match y == targets {
        true => Ok(x + y),
        false => Err(error_in(
            path,
            format!("its examples have {y} targets, and {targets} are asked for"),
        )),
    }
}

/// Reads the rows of a rank.
///
/// # Errors
/// A record that is damaged, or an example of other lists than the first one.
pub(super) fn read(
    part: &Part<'_>,
    targets: usize,
    take: &mut dyn FnMut(Matrix) -> bool,
) -> Result<(), StatsError> {
    let mut file = RecordFile::open(part.path, RecordOptions::default()).map_err(source)?;
    let mut blocks = Blocks::<f32>::new(part, take);
    let mut number = 0;
    let mut record = Vec::new();
    while file.read_into(&mut record).map_err(source)? {
        if part.has(number) {
            let (x, y) = numbers(&record, part.path, targets, &mut blocks.rows)?;
            if (x + y, y) != (part.width, targets) {
                let reason = format!(
                    "record {number} has {x} features and {y} targets, the first one {} and {targets}",
                    part.width - targets
                );
                return Err(part.error(reason));
            }
            if !blocks.turn(false)? {
                return Ok(());
            }
        }
        number += 1;
    }
    blocks.turn(true).map(|_| ())
}
