//! Sparse tensors at three inputs of a node: indices, values and a shape that fit each other.

use std::borrow::Cow;

use thalweg_device::{KernelError, TensorCx};
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Shape, Tensor};

use crate::support::tensors::{AccountedVec, take_slices};

/// The error for inputs that the op cannot take.
pub(crate) fn invalid(why: impl Into<String>) -> KernelError {
    KernelError::Invalid(why.into())
}

/// A list of integers, as TensorFlow's errors have it.
pub(super) fn listed(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    format!("[{}]", numbers.join(","))
}

/// Checks the ranks of indices, values and shape, from input `first` on. Returns the number of dimensions of the sparse
/// tensor, if known.
pub(super) fn infer_sparse(cx: &Infer<'_>, first: usize) -> Result<Option<usize>, InferError> {
    infer_parts(cx, [first, first + 1, first + 2])
}

/// As [`infer_sparse`], for parts at these inputs.
pub(super) fn infer_parts(
    cx: &Infer<'_>,
    [indices, values, shape]: [usize; 3],
) -> Result<Option<usize>, InferError> {
    let of_indices = cx.ranked(indices, 2)?.dim(1);
    cx.ranked(values, 1)?;
    let of_shape = cx.ranked(shape, 1)?.dim(0);
    match (of_indices, of_shape) {
        (Some(a), Some(b)) if a != b => Err(InferError::Mismatch {
            what: "the indices must have a column for each dimension of the shape".to_owned(),
            left: cx.shape(indices).clone(),
            right: cx.shape(shape).clone(),
        }),
        (a, b) => Ok(a.or(b)),
    }
}

/// Sets the shapes of indices, values and a shape, from output `first` on, with so many entries and dimensions.
pub(super) fn set_sparse(
    cx: &mut Infer<'_>,
    first: usize,
    entries: Option<usize>,
    rank: Option<usize>,
) {
    cx.set(first, Shape::partial([entries, rank]));
    cx.set(first + 1, Shape::partial([entries]));
    cx.set(first + 2, Shape::partial([rank]));
}

/// A sparse tensor.
pub(super) struct SparseInput<'a> {
    indices: Cow<'a, [i64]>,
    pub(super) values: &'a Tensor,
    /// Sizes of all dimensions; none is negative, and their product is an `i64`.
    pub(super) shape: Cow<'a, [i64]>,
}

/// The integers of input `i`.
fn integers<'a>(cx: &TensorCx<'a>, i: usize) -> Result<Cow<'a, [i64]>, KernelError> {
    Ok(match cx.tensor(i)?.dtype() {
        DType::I64 => Cow::Borrowed(cx.slice::<i64>(i)?),
        _ => Cow::Owned(cx.ints(i)?),
    })
}

/// Fails unless input `i` has this rank.
pub(super) fn expect_rank(
    cx: &TensorCx<'_>,
    i: usize,
    name: &str,
    rank: usize,
) -> Result<(), KernelError> {
    let found = cx.tensor(i)?;
    let form = match rank {
        0 => "scalar",
        1 => "vector",
        _ => "matrix",
    };
    match found.dims().len() == rank {
        true => Ok(()),
        false => Err(invalid(format!(
            "Input {name} should be a {form} but received shape {}",
            found.shape()
        ))),
    }
}

/// Fails if a size is negative, or the number of elements cannot be counted.
pub(super) fn check_shape(shape: &[i64]) -> Result<(), KernelError> {
    if let Some(negative) = shape.iter().find(|&&size| size < 0) {
        return Err(invalid(format!(
            "Dimension {negative} must be >= 0: the dense shape is {}",
            listed(shape)
        )));
    }
    let sizes: Option<Vec<usize>> = shape.iter().map(|&d| usize::try_from(d).ok()).collect();
    let count = sizes.and_then(|sizes| checked_elements(&sizes));
    match count.is_some_and(|n| i64::try_from(n).is_ok()) {
        true => Ok(()),
        false => Err(invalid(format!(
            "Encountered overflow when multiplying the sizes of the dense shape {}",
            listed(shape)
        ))),
    }
}

impl<'a> SparseInput<'a> {
    /// The sparse tensor whose indices, values and shape are inputs `first`, `first + 1` and `first + 2`.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] if they do not fit each other.
    pub(super) fn of(cx: &TensorCx<'a>, first: usize) -> Result<SparseInput<'a>, KernelError> {
        SparseInput::at(cx, [first, first + 1, first + 2])
    }

    /// As [`SparseInput::of`], from these inputs.
    pub(super) fn at(
        cx: &TensorCx<'a>,
        [indices, values, shape]: [usize; 3],
    ) -> Result<SparseInput<'a>, KernelError> {
        expect_rank(cx, indices, "indices", 2)?;
        expect_rank(cx, values, "values", 1)?;
        expect_rank(cx, shape, "shape", 1)?;
        let (dims, values) = (cx.tensor(indices)?.dims(), cx.tensor(values)?);
        if dims[0] != values.len() {
            return Err(invalid(format!(
                "Number of elements in index ({}) and values ({}) do not match.",
                dims[0],
                values.len()
            )));
        }
        let shape = integers(cx, shape)?;
        if dims[1] != shape.len() {
            return Err(invalid(format!(
                "Index rank ({}) and shape rank ({}) do not match.",
                dims[1],
                shape.len()
            )));
        }
        check_shape(&shape)?;
        Ok(SparseInput {
            indices: integers(cx, indices)?,
            values,
            shape,
        })
    }

    /// Number of dimensions.
    pub(super) fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The index of an entry.
    pub(super) fn index(&self, entry: usize) -> &[i64] {
        &self.indices[entry * self.rank()..][..self.rank()]
    }

    /// Sizes of the dimensions.
    pub(super) fn dims(&self) -> Vec<usize> {
        self.shape.iter().map(|&d| d as usize).collect()
    }

    /// The error for the index of an entry.
    pub(super) fn wrong_index(&self, entry: usize, why: &str) -> KernelError {
        let index = listed(self.index(entry));
        invalid(format!("indices[{entry}] = {index} {why}"))
    }

    /// Fails unless the index of each entry lies in the shape.
    pub(super) fn check_inside(&self, cx: &TensorCx<'_>) -> Result<(), KernelError> {
        let mut stop = cx.stop_check();
        for entry in 0..self.len() {
            stop.tick()?;
            let mut sides = self.index(entry).iter().zip(self.shape.iter());
            if !sides.all(|(i, size)| (0..*size).contains(i)) {
                let shape = listed(&self.shape);
                let why = format!("is out of bounds: need 0 <= index < {shape}");
                return Err(self.wrong_index(entry, &why));
            }
        }
        Ok(())
    }

    /// The place of each entry in a dense tensor, row by row: it orders entries as their indices do. Fails as
    /// [`SparseInput::check_inside`].
    pub(super) fn places(&self, cx: &TensorCx<'_>) -> Result<AccountedVec<i64>, KernelError> {
        self.check_inside(cx)?;
        let strides = strides(&self.shape);
        let mut places = AccountedVec::filled(self.len(), 0, cx.memory())?;
        match (strides[..].first_chunk::<2>(), self.rank()) {
            (Some([outer, inner]), 2) => {
                let indices = self.indices.as_chunks::<2>().0;
                for (place, [row, column]) in places.iter_mut().zip(indices) {
                    *place = row * outer + column * inner;
                }
            }
            _ => {
                for (entry, place) in places.iter_mut().enumerate() {
                    let steps = self.index(entry).iter().zip(&strides);
                    *place = steps.map(|(i, stride)| i * stride).sum();
                }
            }
        }
        Ok(places)
    }

    /// `true` if indices ascend; equal ones may follow each other.
    pub(super) fn is_sorted(&self) -> bool {
        (1..self.len()).all(|entry| self.index(entry - 1) <= self.index(entry))
    }

    /// Numbers of the entries in ascending order of `key` of their index; equal ones keep their order.
    pub(super) fn sorted_by<'s, K: Ord>(
        &'s self,
        cx: &TensorCx<'_>,
        key: impl Fn(&'s [i64]) -> K,
    ) -> Result<AccountedVec<usize>, KernelError> {
        let mut order = AccountedVec::filled(self.len(), 0, cx.memory())?;
        order.iter_mut().enumerate().for_each(|(i, to)| *to = i);
        order.sort_unstable_by_key(|&entry| (key(self.index(entry)), entry));
        Ok(order)
    }

    /// The values of these entries.
    pub(super) fn values_of(
        &self,
        cx: &TensorCx<'_>,
        entries: &[usize],
    ) -> Result<Tensor, KernelError> {
        take_slices(cx, self.values, entries, 1, &[entries.len()])
    }

    /// The indices of these entries.
    pub(super) fn indices_of(
        &self,
        cx: &TensorCx<'_>,
        entries: &[usize],
    ) -> Result<Tensor, KernelError> {
        index_tensor(cx, self.rank(), entries.len(), |i, to| {
            to.copy_from_slice(self.index(entries[i]));
        })
    }
}

/// A matrix of `count` indices, each written by `write`.
pub(super) fn index_tensor(
    cx: &TensorCx<'_>,
    rank: usize,
    count: usize,
    mut write: impl FnMut(usize, &mut [i64]),
) -> Result<Tensor, KernelError> {
    let mut all = cx.zeros(DType::I64, &[count, rank])?;
    let to = all.as_mut_slice::<i64>()?;
    if rank > 0 {
        let rows = to.chunks_exact_mut(rank).enumerate();
        rows.for_each(|(i, row)| write(i, row));
    }
    Ok(all)
}

/// Number of elements of a shape that [`check_shape`] accepts.
pub(super) fn element_count(shape: &[i64]) -> i64 {
    match shape.contains(&0) {
        true => 0,
        false => shape.iter().product(),
    }
}

/// A vector of the sizes of a shape.
pub(super) fn shape_tensor(cx: &TensorCx<'_>, shape: &[i64]) -> Result<Tensor, KernelError> {
    cx.tensor_of(&[shape.len()], shape)
}

/// Row-major distance between neighbours along each dimension of a shape whose elements can be counted.
pub(super) fn strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    strides
}

/// Row-major position of an index.
pub(super) fn position(index: &[i64], strides: &[i64]) -> usize {
    let terms = index.iter().zip(strides).map(|(i, stride)| i * stride);
    terms.sum::<i64>() as usize
}
