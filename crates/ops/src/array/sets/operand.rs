//! Operands of set operations: dense or sparse tensors, with a set along the last dimension for each place in the
//! dimensions before it.

use thalweg_device::{KernelError, TensorCx};
use thalweg_graph::op::{AttrDef, bool_attr};
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape};

use super::members::{Member, Members, sort_distinct};
use crate::support::shape_inputs::invalid_value;
use crate::support::tensors::AccountedVec;

/// Dtypes of the members of a set.
pub(super) const MEMBERS: &[DType] = &[
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::String,
];

/// Attribute `validate_indices`: the indices of sparse operands must ascend.
pub(super) const VALIDATE: AttrDef = bool_attr("validate_indices", true);

/// Dimensions of a shape before the last.
pub(super) fn groups(shape: &Shape) -> Shape {
    match shape.dims() {
        Some([groups @ .., _]) => Shape::partial(groups.iter().copied()),
        _ => Shape::unknown(),
    }
}

/// Form of an operand, with the number of its first input.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    /// A tensor of members, which may repeat.
    Dense(usize),
    /// Indices, values and the shape of a sparse tensor.
    Sparse(usize),
}

impl Operand {
    /// Number of the input with the members.
    pub(super) fn values(self) -> usize {
        match self {
            Operand::Dense(i) => i,
            Operand::Sparse(i) => i + 1,
        }
    }

    /// Shape of the operand, as far as it is known, which has two or more dimensions.
    ///
    /// # Errors
    /// [`InferError`] if there are fewer dimensions.
    pub(super) fn shape(self, cx: &Infer<'_>) -> Result<Shape, InferError> {
        let (input, shape) = match self {
            Operand::Dense(i) => (i, cx.shape(i).clone()),
            Operand::Sparse(i) => {
                let indices = cx.ranked(i, 2)?;
                cx.ranked(i + 1, 1)?;
                let rank = cx.ranked(i + 2, 1)?.dim(0).or(indices.dim(1));
                let known = cx.ints(i + 2).map(Shape::from);
                let of_rank = rank.map_or(Shape::unknown(), Shape::of_rank);
                (i + 2, known.unwrap_or(of_rank))
            }
        };
        match shape.rank() {
            Some(rank @ 0..2) => Err(invalid_value(
                input,
                format!(
                    "it has {}: sets lie along the last of two or more",
                    counted(rank, "dimension")
                ),
            )),
            _ => Ok(shape),
        }
    }

    /// Dimensions of the operand.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] if it has fewer than two, or too many sets.
    pub(super) fn dims(self, cx: &TensorCx<'_>) -> Result<Vec<usize>, KernelError> {
        let dims: Option<Vec<usize>> = match self {
            Operand::Dense(i) => Some(cx.tensor(i)?.dims().to_vec()),
            Operand::Sparse(i) => {
                let dims = cx.ints(i + 2)?;
                dims.iter().map(|&d| usize::try_from(d).ok()).collect()
            }
        };
        let counts = |dims: &Vec<usize>| match dims.split_last() {
            Some((_, [])) | None => false,
            Some((_, sets)) => checked_elements(sets).is_some(),
        };
        dims.filter(counts).ok_or_else(|| {
            KernelError::Invalid(
                "the shape of a set must have two or more dimensions, none negative, and not too many sets"
                    .to_owned(),
            )
        })
    }

    /// Members of the operand's sets, given the values of its elements.
    ///
    /// # Errors
    /// [`KernelError`] for indices that are out of range, or out of order where that matters, and too little memory.
    pub(super) fn members<T: Copy + Ord + Default>(
        self,
        cx: &TensorCx<'_>,
        values: impl ExactSizeIterator<Item = T>,
    ) -> Result<Members<T>, KernelError> {
        let dims = self.dims(cx)?;
        let mut members = AccountedVec::filled(values.len(), Member::default(), cx.memory())?;
        match self {
            Operand::Dense(_) => {
                // Without elements there is no member.
                let len = dims.last().map_or(1, |&len| len.max(1));
                for (i, (member, value)) in members.iter_mut().zip(values).enumerate() {
                    let set = i / len;
                    *member = Member { set, value };
                }
            }
            Operand::Sparse(i) => {
                let mut rows = IndexRows::new(cx, i, &dims, values.len())?;
                let mut stop = cx.stop_check();
                for (row, (member, value)) in members.iter_mut().zip(values).enumerate() {
                    stop.tick()?;
                    let set = rows.set(row)?;
                    *member = Member { set, value };
                }
            }
        }
        sort_distinct(&mut members);
        Ok(members)
    }
}

/// IndexRows of the indices of a sparse tensor.
struct IndexRows<'a> {
    /// Number of the input.
    input: usize,
    indices: &'a [i64],
    dims: &'a [usize],
    /// IndexRows must ascend.
    ordered: bool,
}

impl<'a> IndexRows<'a> {
    fn new(
        cx: &TensorCx<'a>,
        input: usize,
        dims: &'a [usize],
        values: usize,
    ) -> Result<IndexRows<'a>, KernelError> {
        let indices = cx.slice::<i64>(input)?;
        if cx.tensor(input)?.dims() != [values, dims.len()] {
            return Err(KernelError::Invalid(format!(
                "indices of shape {} do not go with {} and a shape of {}",
                cx.tensor(input)?.shape(),
                counted(values, "value"),
                counted(dims.len(), "dimension"),
            )));
        }
        Ok(IndexRows {
            input,
            indices,
            dims,
            ordered: cx.attrs().bool("validate_indices"),
        })
    }

    fn row(&self, row: usize) -> &'a [i64] {
        &self.indices[row * self.dims.len()..][..self.dims.len()]
    }

    /// Number of the set of a row.
    fn set(&mut self, row: usize) -> Result<usize, KernelError> {
        let own = self.row(row);
        let wrong = |axis: usize, reason: String| KernelError::Element {
            input: self.input,
            element: row * own.len() + axis,
            reason,
        };
        let mut set = 0;
        for (axis, (&index, &len)) in own.iter().zip(self.dims).enumerate() {
            let inside = usize::try_from(index).ok().filter(|&index| index < len);
            let index = inside.ok_or_else(|| {
                wrong(
                    axis,
                    format!("Index out of range: {index}, expected < {len}"),
                )
            })?;
            if axis + 1 < own.len() {
                set = set * len + index;
            }
        }
        if self.ordered && row > 0 && self.row(row - 1) >= own {
            return Err(wrong(
                0,
                "the index is out of order or repeated: use tf.sparse.reorder, or set validate_indices to false"
                    .to_owned(),
            ));
        }
        Ok(set)
    }
}
