//! Sums of rows of gradients: the content of an accumulator of sparse gradients.
//! The rules are those of TensorFlow's `SparseConditionalAccumulator`.

use std::cmp::Ordering;
use std::sync::Arc;

use thalweg_cpu::number::{Arithmetic, Number};
use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Memory, Shape, Tensor, dispatch};

use crate::support::tensors::AccountedVec;

fn invalid(why: String) -> KernelError {
    KernelError::Invalid(why)
}

/// A row of a sum.
#[derive(Clone, Copy, Default)]
struct Row {
    /// Number of the variable's row.
    index: i64,
    /// Number of gradients in it.
    count: u32,
}

/// Rows of a gradient, or sums of those of several.
pub(super) struct SparseSum {
    rows: AccountedVec<Row>,
    /// A slice for each row.
    values: Tensor,
}

/// Fails unless the dimensions after the first are those of `expected`, as far as they are known.
fn check_dims(what: &str, expected: &[Option<usize>], found: &[i64]) -> Result<(), KernelError> {
    for (axis, (size, &found)) in expected.iter().zip(found).enumerate().skip(1) {
        if let Some(size) = size.filter(|&size| size as i64 != found) {
            return Err(invalid(format!(
                "Shape mismatch: expected {what} dim {axis} to be {size}, got {found}"
            )));
        }
    }
    Ok(())
}

impl SparseSum {
    /// The gradient at inputs 2 (indices), 3 (values) and 4 (its shape, if attribute `has_known_shape` is set), which must
    /// fit the accumulator's shape.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] if it does not.
    pub(super) fn gradient(cx: &TensorCx<'_>, shape: &Shape) -> Result<SparseSum, KernelError> {
        let (indices, values) = (cx.tensor(2)?, cx.tensor(3)?);
        if indices.dims().len() != 1 {
            return Err(invalid(format!(
                "Input indices should be vector but received shape: {}",
                indices.shape()
            )));
        }
        let Some(&count) = values.dims().first() else {
            return Err(invalid("Values cannot be 0-dimensional.".to_owned()));
        };
        if count != indices.len() {
            return Err(invalid(format!(
                "Expected {} non-empty input values, got {count}",
                indices.len()
            )));
        }
        let expected = shape.dims().unwrap_or_default();
        if cx.attrs().bool("has_known_shape") {
            let given = cx.slice::<i64>(4)?;
            if given.len() < expected.len() {
                return Err(invalid(format!(
                    "Shape mismatch: expected shape rank at least {}, got {}",
                    expected.len(),
                    given.len()
                )));
            }
            check_dims("shape", expected, given)?;
        }
        let (indices, end) = (cx.slice::<i64>(2)?, shape.dim(0));
        for (slice, &index) in indices.iter().enumerate() {
            if index < 0 || end.is_some_and(|end| index >= end as i64) {
                return Err(invalid(format!(
                    "Shape mismatch: index of slice {slice} exceeded limits of shape; index is {index} exceeded {}",
                    end.map_or("the rows".to_owned(), |end| end.to_string())
                )));
            }
        }
        let dims: Vec<i64> = values.dims().iter().map(|&d| d as i64).collect();
        if dims.len() < expected.len() {
            return Err(invalid(format!(
                "Shape mismatch: expected values rank at least {}, got {}",
                expected.len(),
                dims.len()
            )));
        }
        check_dims("values", expected, &dims)?;
        let mut rows = AccountedVec::filled(indices.len(), Row::default(), cx.memory())?;
        for (row, &index) in rows.iter_mut().zip(indices) {
            *row = Row { index, count: 1 };
        }
        Ok(SparseSum {
            rows,
            values: values.clone(),
        })
    }

    /// The sum of both: their rows, in ascending order, each once.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] if the slices have different shapes.
    pub(super) fn plus(
        &self,
        more: &SparseSum,
        memory: &Arc<Memory>,
    ) -> Result<SparseSum, KernelError> {
        let (own, other) = (self.values.dims(), more.values.dims());
        if own.len() != other.len() {
            return Err(invalid(format!(
                "Shape mismatch: expected values rank {}, got {}",
                own.len(),
                other.len()
            )));
        }
        let expected: Vec<Option<usize>> = own.iter().map(|&d| Some(d)).collect();
        let found: Vec<i64> = other.iter().map(|&d| d as i64).collect();
        check_dims("values", &expected, &found)?;
        let (a, b) = (&self.rows, &more.rows);
        let most = a.len().saturating_add(b.len());
        // The rows of both that make each row of the sum.
        let mut pairs = AccountedVec::filled(most, (None, None), memory)?;
        let (mut i, mut j, mut count) = (0, 0, 0);
        while i < a.len() || j < b.len() {
            let order = match (a.get(i), b.get(j)) {
                (Some(a), Some(b)) => a.index.cmp(&b.index),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            pairs[count] = (order.is_le().then_some(i), order.is_ge().then_some(j));
            i += usize::from(order.is_le());
            j += usize::from(order.is_ge());
            count += 1;
        }
        pairs.truncate(count);
        let mut rows = AccountedVec::filled(count, Row::default(), memory)?;
        for (row, &(i, j)) in rows.iter_mut().zip(pairs.iter()) {
            for part in [i.map(|i| a[i]), j.map(|j| b[j])].into_iter().flatten() {
                row.index = part.index;
                row.count = row.count.saturating_add(part.count);
            }
        }
        let dims = [&[count], &own[1..]].concat();
        let mut values = Tensor::zeros_in(self.values.dtype(), &dims, memory)?;
        let inner = elements(&own[1..]);
        dispatch!(values.dtype(), NUMBERS, T => {
            let (x, y) = (self.values.as_slice::<T>()?, more.values.as_slice::<T>()?);
            let to = values.as_mut_slice::<T>()?;
            for (row, &(i, j)) in pairs.iter().enumerate() {
                let to = &mut to[row * inner..][..inner];
                let parts = [i.map(|i| &x[i * inner..][..inner]), j.map(|j| &y[j * inner..][..inner])];
                for part in parts.into_iter().flatten() {
                    to.iter_mut().zip(part).for_each(|(to, &x)| *to = Arithmetic::add(*to, x));
                }
            }
        }, else return Err(KernelError::DType(values.dtype())));
        Ok(SparseSum { rows, values })
    }

    /// Indices, values and the shape of the gradient, of which `first` is the first size; with `mean`, each row is divided
    /// by the number of gradients that had it.
    pub(super) fn into_parts(
        self,
        cx: &TensorCx<'_>,
        mean: bool,
        first: Option<usize>,
    ) -> Result<Vec<Tensor>, KernelError> {
        let mut indices = cx.zeros(DType::I64, &[self.rows.len()])?;
        let to = indices.as_mut_slice::<i64>()?.iter_mut();
        to.zip(self.rows.iter())
            .for_each(|(to, row)| *to = row.index);
        let mut values = self.values;
        let inner = elements(&values.dims()[1..]).max(1);
        if mean {
            dispatch!(values.dtype(), NUMBERS, T => {
                let slices = values.as_mut_slice::<T>()?.chunks_mut(inner);
                for (slice, row) in slices.zip(self.rows.iter()) {
                    let count = f64::from(row.count);
                    slice.iter_mut().for_each(|x| *x = T::from_f64(x.to_f64() / count));
                }
            }, else return Err(KernelError::DType(values.dtype())));
        }
        let sizes = values.dims().iter().map(|&d| d as i64);
        let mut shape: Vec<i64> = sizes.collect();
        shape[0] = first.map_or(-1, |first| first as i64);
        Ok(vec![indices, values, cx.tensor_of(&[shape.len()], &shape)?])
    }
}
