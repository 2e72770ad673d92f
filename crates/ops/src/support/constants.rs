//! `i32` constants that gradient rules add to a graph.

use thalweg_graph::{Graph, Output};
use thalweg_tensor::{DType, Tensor};

/// A constant vector of `i32`: axes, a shape.
pub(crate) fn ints<'g>(graph: &'g Graph, values: &[i32]) -> Output<'g> {
    graph
        .op("Const")
        .attr("value", Tensor::from(values))
        .attr("dtype", DType::I32)
        .output()
}

/// The shape of `x` as a vector of `i32`: a constant if it is known.
pub(crate) fn shape_of(x: Output<'_>) -> Output<'_> {
    let known = x.shape().to_dims();
    let known = known.and_then(|dims| dims.iter().map(|&d| i32::try_from(d).ok()).collect());
    match known {
        Some::<Vec<i32>>(dims) => ints(x.graph(), &dims),
        None => x.graph().op("Shape").input(x).output(),
    }
}
