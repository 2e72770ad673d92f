//! Shift of the rows: numbers near the means of their columns, so that products do not cancel.

use thalweg_hvd::Hvd;
use thalweg_tensor::{DType, Tensor};

use crate::error::StatsError;
use crate::passes::Columns;
use crate::rows::{Block, RowBlocks};

/// Rows whose mean is taken.
const SAMPLE: usize = 256;

/// The means of the first rows of the first block of the first rank that has any, `[p + k]`: the same on all ranks.
///
/// # Errors
/// No rank has rows, or an error of the source of rows or of a rank.
pub(super) fn shift(
    hvd: &Hvd,
    rows: &dyn RowBlocks,
    columns: Columns,
) -> Result<Vec<f64>, StatsError> {
    let width = columns.x + columns.y;
    // The count, then the sums.
    let mut own = vec![0.0; 1 + width];
    if let Some(block) = rows.first_block()? {
        add_rows(&block, columns, &mut own)?;
    }
    let all = hvd.allgather(Tensor::new(&[1, own.len()], &own)?)?;
    let first = all
        .as_slice::<f64>()?
        .chunks_exact(own.len())
        .find(|rank| rank[0] > 0.0);
    let first = first.ok_or_else(|| StatsError::invalid("no rank has any rows"))?;
    let mean = |sum: &f64| match (sum / first[0]).is_finite() {
        // A number of f32 stays one of f32 less its shift, if that is one too.
        true if rows.dtype() == DType::F32 => f64::from((sum / first[0]) as f32),
        true => sum / first[0],
        // A pass over the rows says where the number is.
        false => 0.0,
    };
    Ok(first[1..].iter().map(mean).collect())
}

/// Adds the first rows of a block to the count and the sums.
fn add_rows(block: &Block, columns: Columns, to: &mut [f64]) -> Result<(), StatsError> {
    let (x, y) = (numbers(&block.x, columns.x)?, numbers(&block.y, columns.y)?);
    let rows = block.x.dims().first().copied().unwrap_or(0).min(SAMPLE);
    to[0] += rows as f64;
    let (to_x, to_y) = to[1..].split_at_mut(columns.x);
    for (numbers, to) in [(x, to_x), (y, to_y)] {
        for row in numbers.chunks_exact(to.len().max(1)) {
            to.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    }
    Ok(())
}

/// The first rows of a matrix as `f64`.
fn numbers(matrix: &Tensor, columns: usize) -> Result<Vec<f64>, StatsError> {
    let count = matrix.len().min(SAMPLE * columns);
    Ok(match matrix.dtype() {
        DType::F32 => matrix.as_slice::<f32>()?[..count]
            .iter()
            .map(|x| f64::from(*x))
            .collect(),
        _ => matrix.as_slice::<f64>()?[..count].to_vec(),
    })
}
