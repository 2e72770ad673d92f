//! Slices by vectors of indices, as GatherNd, ScatterNd and the TensorScatter ops use them.

use thalweg_device::KernelError;
use thalweg_graph::op::{AttrDef, str_attr};
use thalweg_graph::{Attrs, Infer, InferError, NodeBuilder};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Element, Shape};

use crate::support::shape_inputs::checked_shape;

/// Dtypes of an index.
pub(super) const INDICES: &[DType] = &[DType::I16, DType::I32, DType::I64];
/// Policy for an index out of range: an error, or a slice that is left out.
pub(super) const POLICY: AttrDef =
    str_attr("bad_indices_policy", "", &["", "DEFAULT", "ERROR", IGNORE]);
const IGNORE: &str = "IGNORE";

/// `true` if a node of these attributes leaves out slices at indices out of range.
pub(super) fn ignores_bad_indices(attrs: &Attrs) -> bool {
    attrs.str(POLICY.name) == IGNORE
}

/// The node, with the policy of a node of these attributes.
pub(super) fn with_policy<'g>(node: NodeBuilder<'g>, attrs: &Attrs) -> NodeBuilder<'g> {
    node.attr(POLICY.name, attrs.str(POLICY.name))
}

/// Dimensions of `indices` before the last one, and the length of the last one.
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

/// Shape of the slices of a tensor of shape `whole` at `indices`, which is input `input`.
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
    checked_shape(input, Shape::partial([rows, inner].concat()))
}

/// Fails unless the updates in input `updates` have the shape of the slices that they update.
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

/// Slices of a tensor at vectors of indices.
pub(super) struct SliceIndexer {
    /// Dimensions that are indexed.
    outer: Vec<usize>,
    /// Number of elements of a slice.
    pub(super) inner: usize,
    /// Input number of the indices.
    input: usize,
    /// `true` if slices at indices out of range are left out.
    pub(super) ignores: bool,
}

impl SliceIndexer {
    /// Slices of a tensor of dimensions `whole`, at the indices in input `input`, of dimensions `indices`.
    pub(super) fn new(
        indices: &[usize],
        whole: &[usize],
        input: usize,
        attrs: &Attrs,
    ) -> Result<SliceIndexer, KernelError> {
        let depth = indices.last().copied();
        let depth = depth.filter(|&d| d <= whole.len());
        let (outer, inner) = whole.split_at(depth.ok_or(KernelError::Argument("indices"))?);
        Ok(SliceIndexer {
            outer: outer.to_vec(),
            inner: thalweg_tensor::shape::elements(inner),
            input,
            ignores: ignores_bad_indices(attrs),
        })
    }

    /// Number of vectors of indices in a tensor of dimensions `dims`.
    pub(super) fn count(&self, dims: &[usize]) -> usize {
        let rows = dims.split_last().map_or(&[][..], |(_, rows)| rows);
        thalweg_tensor::shape::elements(rows)
    }

    /// Calls `body` for each of `count` vectors of indices, in order, with its number and the first element of its
    /// slice. An index out of range is an error, or its vector is left out.
    pub(super) fn each<I: Element + Into<i64>>(
        &self,
        indices: &[I],
        count: usize,
        mut body: impl FnMut(usize, usize),
    ) -> Result<(), KernelError> {
        let depth = self.outer.len();
        'rows: for row in 0..count {
            let mut at = 0;
            for (k, &len) in self.outer.iter().enumerate() {
                let index: i64 = indices[row * depth + k].into();
                let index = usize::try_from(index).ok().filter(|&i| i < len);
                at = match index {
                    Some(index) => at * len + index,
                    None if self.ignores => continue 'rows,
                    None => {
                        return Err(KernelError::Element {
                            input: self.input,
                            element: row * depth + k,
                            reason: format!("it is not within 0..{len}"),
                        });
                    }
                };
            }
            body(row, at * self.inner);
        }
        Ok(())
    }
}
