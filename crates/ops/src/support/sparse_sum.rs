//! Sums of sparse matrices, and what generic ops do with one: AddN, ZerosLike, Conj.

use std::collections::BTreeMap;

use thalweg_cpu::number::Arithmetic;
use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{Tensor, dispatch};

use super::sparse_matrix::{Pattern, SparseMatrix, conjugated};
use super::tensors::AccountedVec;

/// The sum of two sparse matrices; `None` if one of the values is something else.
pub(crate) fn sum_of_variants(
    cx: &TensorCx<'_>,
    a: &Tensor,
    b: &Tensor,
) -> Result<Option<Tensor>, KernelError> {
    let (Some(a), Some(b)) = (a.object::<SparseMatrix>(), b.object::<SparseMatrix>()) else {
        return Ok(None);
    };
    let dtypes = [a.values.dtype(), b.values.dtype()];
    if dtypes[0] != dtypes[1] {
        return Err(KernelError::Invalid(format!(
            "sparse matrices of {} and of {} cannot be added: cast the values of one",
            dtypes[0], dtypes[1]
        )));
    }
    dispatch!(dtypes[0], [F32 F64 C64 C128], T => {
        let mut sum = added(cx, &a, &b, [T::ONE; 2])?.output()?;
        Ok(sum.pop())
    }, else Err(KernelError::DType(dtypes[0])))
}

/// The sparse matrix without entries in the shape of another one; `None` if the value is something else.
pub(crate) fn zeros_like(cx: &TensorCx<'_>, of: &Tensor) -> Result<Option<Tensor>, KernelError> {
    let Some(of) = of.object::<SparseMatrix>() else {
        return Ok(None);
    };
    let zeros = SparseMatrix {
        pattern: Pattern::of(cx, of.pattern.dims(), 0, |_| [0; 3])?,
        values: cx.zeros(of.values.dtype(), &[0])?,
    };
    Ok(zeros.output()?.pop())
}

/// The conjugates of the entries of a sparse matrix at input 0.
pub(crate) fn conj(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    conjugated(cx, &*SparseMatrix::at(cx, 0)?)?.output()
}

/// The sum of two sparse matrices, each times a factor.
///
/// # Errors
/// [`KernelError::Invalid`] if their shapes differ.
pub(crate) fn added<T: Arithmetic>(
    cx: &TensorCx<'_>,
    a: &SparseMatrix,
    b: &SparseMatrix,
    factors: [T; 2],
) -> Result<SparseMatrix, KernelError> {
    if a.pattern.dims() != b.pattern.dims() {
        return Err(KernelError::Invalid(format!(
            "the matrices must have one shape, and have {:?} and {:?}",
            a.pattern.dims(),
            b.pattern.dims()
        )));
    }
    let values = [a.values.as_slice::<T>()?, b.values.as_slice()?];
    let mut stop = cx.stop_check();
    merged_rows(cx, a.pattern.dims(), |matrix, row, sums| {
        for (of, (factor, values)) in [a, b].into_iter().zip(factors.into_iter().zip(values)) {
            for entry in of.pattern.row(matrix, row) {
                stop.tick()?;
                let sum = sums.entry(of.pattern.columns()[entry]).or_insert(T::ZERO);
                *sum = sum.add(factor.mul(values[entry]));
            }
        }
        Ok(())
    })
}

/// The matrix whose rows `add` sums up, column by column.
pub(crate) fn merged_rows<T: Arithmetic>(
    cx: &TensorCx<'_>,
    dims: &[usize],
    mut add: impl FnMut(usize, usize, &mut BTreeMap<i32, T>) -> Result<(), KernelError>,
) -> Result<SparseMatrix, KernelError> {
    let (batch, rows) = match *dims {
        [rows, _] => (1, rows),
        [batch, rows, _] => (batch, rows),
        _ => return Err(KernelError::Argument("matrices")),
    };
    let mut places = AccountedVec::new(cx.memory());
    let mut values = AccountedVec::new(cx.memory());
    let (mut sums, mut stop) = (BTreeMap::new(), cx.stop_check());
    for matrix in 0..batch {
        for row in 0..rows {
            stop.tick()?;
            sums.clear();
            add(matrix, row, &mut sums)?;
            let start = places.len();
            places.grow(start + sums.len(), [0; 3])?;
            values.grow(start + sums.len(), T::ZERO)?;
            let to = places[start..].iter_mut().zip(&mut values[start..]);
            to.zip(&sums).for_each(|((place, value), (&column, &sum))| {
                (*place, *value) = ([matrix, row, column as usize], sum);
            });
        }
    }
    Ok(SparseMatrix {
        pattern: Pattern::of(cx, dims, places.len(), |entry| places[entry])?,
        values: cx.tensor_of(&[values.len()], &values)?,
    })
}
