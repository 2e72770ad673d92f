//! Nodes that gradient rules add: constants of any index dtype, shapes, reshapes, zeros.

use thalweg_graph::{Graph, Output};
use thalweg_tensor::{DType, Tensor};

use super::shape_inputs::int_tensor;

/// A vector of integers as a constant.
#[track_caller]
pub(crate) fn int_vector<'g>(graph: &'g Graph, dtype: DType, values: &[i64]) -> Output<'g> {
    let value = int_tensor(dtype, &[values.len()], values);
    constant(graph, value.unwrap_or_else(|| Tensor::vector(values)))
}

/// An integer as a constant.
#[track_caller]
pub(crate) fn int_scalar(graph: &Graph, dtype: DType, value: i64) -> Output<'_> {
    let tensor = int_tensor(dtype, &[], &[value]);
    constant(graph, tensor.unwrap_or_else(|| Tensor::scalar(value)))
}

#[track_caller]
fn constant(graph: &Graph, value: Tensor) -> Output<'_> {
    let dtype = value.dtype();
    graph
        .op("Const")
        .attr("dtype", dtype)
        .attr("value", value)
        .output()
}

/// The complex conjugate of `x`; of a real tensor, `x` itself.
#[track_caller]
pub(crate) fn conj(x: Output<'_>) -> Output<'_> {
    match x.dtype().is_complex() {
        true => x.graph().op("Conj").input(x).output(),
        false => x,
    }
}

/// The shape of `x` as a vector: a constant if it is known.
#[track_caller]
pub(crate) fn shape_of<'g>(x: Output<'g>, dtype: DType) -> Output<'g> {
    let graph = x.graph();
    let known = x.shape().to_dims().and_then(|dims| {
        let dims: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
        int_tensor(dtype, &[dims.len()], &dims)
    });
    match known {
        Some(dims) => constant(graph, dims),
        None => graph.op("Shape").input(x).attr("out_type", dtype).output(),
    }
}

/// Reshapes `x` to these dimensions.
#[track_caller]
pub(crate) fn reshape<'g>(x: Output<'g>, dims: &[i64]) -> Output<'g> {
    let to = int_vector(x.graph(), DType::I64, dims);
    x.graph().op("Reshape").input(x).input(to).output()
}

/// `dy`, or zeros like `y` if there is no gradient.
#[track_caller]
pub(crate) fn or_zeros<'g>(dy: Option<Output<'g>>, y: Output<'g>) -> Output<'g> {
    dy.unwrap_or_else(|| y.graph().op("ZerosLike").input(y).output())
}

/// The size of the first dimension of `x`, as a scalar.
#[track_caller]
pub(crate) fn first_size<'g>(x: Output<'g>, dtype: DType) -> Output<'g> {
    let graph = x.graph();
    let at = |i: i64| int_vector(graph, DType::I32, &[i]);
    let node = graph.op("StridedSlice").input(shape_of(x, dtype));
    let node = node.input(at(0)).input(at(1)).input(at(1));
    node.attr("shrink_axis_mask", 1).output()
}

/// The slices of `x` at these indices of its first dimension.
#[track_caller]
pub(crate) fn gather_rows<'g>(x: Output<'g>, indices: Output<'g>) -> Output<'g> {
    let node = x.graph().op("GatherV2").input(x).input(indices);
    node.input(int_scalar(x.graph(), DType::I32, 0)).output()
}
