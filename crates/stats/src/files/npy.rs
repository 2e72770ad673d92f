//! Rows of NumPy's arrays.

use std::path::Path;

use thalweg_data::NpyFile;
use thalweg_tensor::DType;

use super::part::{Matrix, Part, error_in};
use crate::error::StatsError;

fn open(path: &Path) -> Result<(NpyFile, usize), StatsError> {
    let file = NpyFile::open(path).map_err(|e| StatsError::Source(e.into()))?;
    match (file.dims(), file.dtype()) {
        (&[_, width], DType::F32 | DType::F64) => Ok((file, width)),
        (dims, dtype) => {
            let reason = format!(
                "an array of {dtype} and dimensions {dims:?}: rows are a matrix of f32 or f64"
            );
            Err(error_in(path, reason))
        }
    }
}

/// The number of columns, and the dtype.
///
/// # Errors
/// The file is not read, or is no matrix of floats.
pub(super) fn width(path: &Path) -> Result<(usize, DType), StatsError> {
    let (file, width) = open(path)?;
    Ok((width, file.dtype()))
}

/// Reads the rows of a rank: consecutive ones.
///
/// # Errors
/// The file is not read, or has another number of columns than the first one.
pub(super) fn read(
    part: &Part<'_>,
    take: &mut dyn FnMut(Matrix) -> bool,
) -> Result<(), StatsError> {
    let (file, width) = open(part.path)?;
    if width != part.width {
        let reason = format!("it has {width} columns, the first file {}", part.width);
        return Err(part.error(reason));
    }
    let bound =
        |rank: usize| (u128::from(file.rows()) * rank as u128 / part.share.ranks as u128) as u64;
    let (mut at, end) = (bound(part.share.rank), bound(part.share.rank + 1));
    while at < end {
        let count = (end - at).min(part.block_rows as u64);
        let block = file
            .block(at, count)
            .map_err(|e| StatsError::Source(e.into()))?;
        if !take(block) {
            return Ok(());
        }
        at += count;
    }
    Ok(())
}
