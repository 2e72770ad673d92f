//! Dtypes and shapes of matrices in the last two dimensions, and of the batches before them.

use thalweg_graph::op::{AttrDef, type_attr};
use thalweg_graph::{Infer, InferError, Output};
use thalweg_tensor::{DType, Shape};

use crate::support::constants::{ints, shape_of};
use crate::support::shape_inputs::{checked_shape, invalid_value};

/// The dtype attribute of ops that compute in `f32` and `f64`.
pub(super) const REAL: AttrDef = type_attr("T", &[DType::F32, DType::F64]);
/// The dtype attribute of ops that compute in `f32`, `f64`, and of complex numbers in `Complex<f64>`.
pub(super) const DTYPE: AttrDef =
    type_attr("T", &[DType::F32, DType::F64, DType::C64, DType::C128]);

/// Dimensions before the last two, if the rank is known.
pub(super) fn batch_dims(shape: &Shape) -> Shape {
    match shape.dims() {
        Some([batch @ .., _, _]) => Shape::partial(batch.iter().copied()),
        _ => Shape::unknown(),
    }
}

/// Dimensions before the matrices of input `i`, and rows and columns of those.
pub(super) fn matrices(
    cx: &Infer<'_>,
    i: usize,
) -> Result<(Shape, [Option<usize>; 2]), InferError> {
    let shape = cx.shape(i);
    match shape.dims() {
        None => Ok((Shape::unknown(), [None, None])),
        Some(&[.., rows, cols]) => Ok((batch_dims(shape), [rows, cols])),
        Some(_) => Err(InferError::Rank {
            input: i,
            expected: "at least 2".to_owned(),
            found: shape.clone(),
        }),
    }
}

/// Dimensions before the square matrices of input `i`, and rows of those.
pub(super) fn square(cx: &Infer<'_>, i: usize) -> Result<(Shape, Option<usize>), InferError> {
    let (batch, [rows, columns]) = matrices(cx, i)?;
    match (rows, columns) {
        (Some(rows), Some(columns)) if rows != columns => Err(invalid_value(
            i,
            format!("its matrices are {rows} x {columns}: they must be square"),
        )),
        _ => Ok((batch, rows.or(columns))),
    }
}

/// The shape of `batch`, followed by these dimensions.
pub(super) fn joined(batch: &Shape, dims: &[Option<usize>]) -> Shape {
    batch.dims().map_or(Shape::unknown(), |batch| {
        Shape::partial([batch, dims].concat())
    })
}

/// As [`joined`], where the dimensions do not follow from those of one input: an error if the tensor is too large.
pub(super) fn checked_join(batch: &Shape, dims: &[Option<usize>]) -> Result<Shape, InferError> {
    checked_shape(0, joined(batch, dims))
}

/// Shape rule: square matrices give matrices of the same shape.
pub(super) fn unchanged_squares(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (batch, n) = square(cx, 0)?;
    cx.set(0, joined(&batch, &[n, n]));
    Ok(())
}

/// The batch dimensions that inputs 0 and 1 share.
pub(super) fn same_batch(x: Shape, y: Shape) -> Result<Shape, InferError> {
    x.merge(&y).ok_or_else(|| InferError::Mismatch {
        what: "the dimensions before the matrices must be the same".to_owned(),
        left: x.clone(),
        right: y.clone(),
    })
}

/// Sums `grad`, whose matrices are those of `x`, over the batches along which `x` is broadcast
/// to match `other`.
pub(super) fn sum_batches<'g>(grad: Output<'g>, x: Output<'g>, other: Output<'g>) -> Output<'g> {
    let graph = grad.graph();
    let (own, beside) = (batch_dims(&x.shape()), batch_dims(&other.shape()));
    if own.is_known() && own == beside {
        return grad;
    }
    let axes = match (own.to_dims(), beside.to_dims()) {
        (Some(own), Some(beside)) => ints(graph, &repeated_axes(&own, &beside)),
        _ => {
            let batch_dims = |o: Output<'g>| {
                let shape = graph.op("Shape").input(o).output();
                let slice = graph
                    .op("StridedSlice")
                    .input(shape)
                    .input(ints(graph, &[0]));
                slice
                    .input(ints(graph, &[-2]))
                    .input(ints(graph, &[1]))
                    .output()
            };
            let args = graph.op("BroadcastGradientArgs").input(batch_dims(x));
            args.input(batch_dims(other)).build().output(0)
        }
    };
    let sum = graph
        .op("Sum")
        .input(grad)
        .input(axes)
        .attr("keep_dims", false);
    graph
        .op("Reshape")
        .input(sum.output())
        .input(shape_of(x))
        .output()
}

/// Axes of the broadcast batches along which those of `own` are repeated.
fn repeated_axes(own: &[usize], beside: &[usize]) -> Vec<i32> {
    let rank = own.len().max(beside.len());
    let at = |dims: &[usize], axis: usize| (axis + dims.len()).checked_sub(rank).map(|i| dims[i]);
    (0..rank)
        .filter(|&axis| match (at(own, axis), at(beside, axis)) {
            (None, _) => true,
            (Some(own), beside) => own == 1 && beside.is_some_and(|n| n != 1),
        })
        .map(|axis| axis as i32)
        .collect()
}

/// Index of the matrix of an input with batch dimensions `own` that is used for matrix `i` of `batch`.
pub(super) fn matrix_at(mut i: usize, batch: &[usize], own: &[usize]) -> usize {
    let (mut at, mut step) = (0, 1);
    for (axis, &len) in batch.iter().enumerate().rev() {
        let index = i % len;
        i /= len;
        // Dimensions that the input lacks come before its own.
        if let Some(&len) = (axis + own.len())
            .checked_sub(batch.len())
            .and_then(|own_axis| own.get(own_axis))
        {
            at += if len == 1 { 0 } else { index * step };
            step *= len;
        }
    }
    at
}
