//! Grouped all-reduce: several tensors, reduced as one.

use thalweg_collective::ReduceOp;
use thalweg_tensor::{DType, Tensor, dispatch};

use crate::error::HvdError;

/// Reduces all tensors with `reduce`, which reduces one: those of one dtype are concatenated. Adasum reduces each
/// separately.
pub(crate) fn allreduce(
    tensors: &[Tensor],
    op: ReduceOp,
    reduce: impl Fn(Tensor) -> Result<Tensor, HvdError>,
) -> Result<Vec<Tensor>, HvdError> {
    if op == ReduceOp::Adasum {
        return tensors.iter().map(|t| reduce(t.clone())).collect();
    }
    let mut reduced = tensors.to_vec();
    // The order is the same on all ranks, as they give the same dtypes.
    let mut dtypes: Vec<DType> = Vec::new();
    for tensor in tensors {
        if !dtypes.contains(&tensor.dtype()) {
            dtypes.push(tensor.dtype());
        }
    }
    for dtype in dtypes {
        let of_dtype: Vec<usize> = (0..tensors.len())
            .filter(|&i| tensors[i].dtype() == dtype)
            .collect();
        dispatch!(dtype, NUMBERS, T => {
            let mut flat: Vec<T> = Vec::new();
            for &i in &of_dtype {
                flat.extend_from_slice(tensors[i].as_slice::<T>()?);
            }
            let whole = reduce(Tensor::vector(&flat))?;
            let mut rest = whole.as_slice::<T>()?;
            for &i in &of_dtype {
                let (own, more) = rest.split_at(tensors[i].len());
                reduced[i] = Tensor::new(tensors[i].dims(), own)?;
                rest = more;
            }
        }, else {
            for &i in &of_dtype {
                reduced[i] = reduce(tensors[i].clone())?;
            }
        });
    }
    Ok(reduced)
}
