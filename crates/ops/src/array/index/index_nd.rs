//! Slices that a vector of indices names: what GatherNd, ScatterNd and their kin share.

use thalweg_device::{KernelError, Prepare};
use thalweg_graph::op::{AttrDef, str_attr};
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Element, Shape};

use crate::support::shape_inputs::countable;

/// The dtypes of an index.
pub(super) const INDICES: &[DType] = &[DType::I16, DType::I32, DType::I64];
/// What becomes of an index out of range: here it is an error.
pub(super) const POLICY: AttrDef = str_attr("bad_indices_policy", "", &["", "DEFAULT", "ERROR"]);

/// The rows of indices before the last dimension, and the length of that one.
fn rows(indices: &Shape, input: usize) -> Result<(Shape, Option<usize>), InferError> {
    match indices.dims() {
        None => Ok((Shape::unknown(), None)),
        Some([rows @ .., depth]) => Ok((Shape::partial(rows.iter().copied()), *depth)),
        Some([]) => Err(InferError::Rank {
            input,
            expected: "at least 1".to_owned(),
            found: Shape::scalar(),
        }),
    }
}

/// The shape of the slices of a tensor of shape `whole` that `indices`, input `input`, name.
pub(super) fn slices(whole: &Shape, indices: &Shape, input: usize) -> Result<Shape, InferError> {
    let (rows, depth) = rows(indices, input)?;
    let (Some(dims), Some(rows), Some(depth)) = (whole.dims(), rows.dims(), depth) else {
        return Ok(Shape::unknown());
    };
    let inner = dims.get(depth..).ok_or_else(|| InferError::Mismatch {
        what: format!(
            "places of {} in a tensor of {}",
            counted(depth, "number"),
            counted(dims.len(), "dimension")
        ),
        left: indices.clone(),
        right: whole.clone(),
    })?;
    countable(input, Shape::partial([rows, inner].concat()))
}

/// The updates in input `updates` must have the shape of the slices that they go to.
pub(super) fn expect_slices(
    cx: &Infer<'_>,
    whole: &Shape,
    indices: usize,
    updates: usize,
) -> Result<(), InferError> {
    let slices = slices(whole, cx.shape(indices), indices)?;
    match slices.merge(cx.shape(updates)) {
        Some(_) => Ok(()),
        None => Err(InferError::Mismatch {
            what: "the updates must have the shape of the slices that the indices name".to_owned(),
            left: cx.shape(updates).clone(),
            right: slices,
        }),
    }
}

/// Slices of a tensor by vectors of indices.
pub(super) struct Slices {
    /// The dimensions that are indexed.
    outer: Vec<usize>,
    /// The elements of a slice.
    pub(super) inner: usize,
    /// The input that the indices are.
    input: usize,
}

impl Slices {
    /// Of a tensor of dimensions `whole`, by input `input`.
    pub(super) fn new(
        p: &Prepare<'_>,
        whole: &[usize],
        input: usize,
    ) -> Result<Slices, KernelError> {
        let depth = p.dims(input).last().copied();
        let depth = depth.filter(|&d| d <= whole.len());
        let (outer, inner) = whole.split_at(depth.ok_or(KernelError::Argument("indices"))?);
        Ok(Slices {
            outer: outer.to_vec(),
            inner: thalweg_tensor::shape::elements(inner),
            input,
        })
    }

    /// How many vectors of indices there are in so many indices, whose rows are `rows`.
    pub(super) fn count(&self, dims: &[usize]) -> usize {
        let rows = dims.split_last().map_or(&[][..], |(_, rows)| rows);
        thalweg_tensor::shape::elements(rows)
    }

    /// The first element of the slice of each of `count` vectors of indices, in order, handed to
    /// `body` with the vector's number; an error for the first that is out of range.
    pub(super) fn each<I: Element + Into<i64>>(
        &self,
        indices: &[I],
        count: usize,
        mut body: impl FnMut(usize, usize),
    ) -> Result<(), KernelError> {
        let depth = self.outer.len();
        for row in 0..count {
            let mut at = 0;
            for (k, &len) in self.outer.iter().enumerate() {
                let index: i64 = indices[row * depth + k].into();
                let index = usize::try_from(index).ok().filter(|&i| i < len);
                at = at * len
                    + index.ok_or_else(|| KernelError::Element {
                        input: self.input,
                        element: row * depth + k,
                        reason: format!("it is not within 0..{len}"),
                    })?;
            }
            body(row, at * self.inner);
        }
        Ok(())
    }
}
