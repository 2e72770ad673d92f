//! Centroids in `f64` on the host, and as tensors of the rows' dtype.

use thalweg_tensor::{DType, Tensor};

use crate::error::StatsError;

/// Elements of a tensor as `f64`.
pub(super) fn widened(tensor: &Tensor) -> Result<Vec<f64>, StatsError> {
    Ok(match tensor.dtype() {
        DType::F32 => tensor
            .as_slice::<f32>()?
            .iter()
            .map(|x| f64::from(*x))
            .collect(),
        _ => tensor.to_vec::<f64>()?,
    })
}

/// A matrix of `f64` in the dtype of the rows.
pub(super) fn narrowed(
    dtype: DType,
    dims: [usize; 2],
    values: &[f64],
) -> Result<Tensor, StatsError> {
    Ok(match dtype {
        DType::F32 => {
            let narrow: Vec<f32> = values.iter().map(|x| *x as f32).collect();
            Tensor::new(&dims, &narrow)?
        }
        _ => Tensor::new(&dims, values)?,
    })
}

/// A row of a matrix as `f64`.
pub(super) fn row_of(matrix: &Tensor, row: usize) -> Result<Vec<f64>, StatsError> {
    let columns = matrix.dims().get(1).copied().unwrap_or(0);
    let at = row * columns..(row + 1) * columns;
    Ok(match matrix.dtype() {
        DType::F32 => matrix.as_slice::<f32>()?[at]
            .iter()
            .map(|x| f64::from(*x))
            .collect(),
        _ => matrix.as_slice::<f64>()?[at].to_vec(),
    })
}
