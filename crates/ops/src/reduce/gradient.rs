//! Gradients of reductions: the gradient of an output is broadcast to the elements that it reduces.

use smallvec::SmallVec;
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::{GradCx, Graph, Output};
use thalweg_tensor::{DType, Tensor};

#[track_caller]
pub(super) fn constant<'g>(graph: &'g Graph, value: impl Into<Tensor>) -> Output<'g> {
    let value = value.into();
    let dtype = value.dtype();
    let op = graph.op("Const").attr("value", value);
    op.attr("dtype", dtype).output()
}

/// Reduced dimensions, ascending, if the axes and the rank are known.
fn axes(g: &GradCx<'_, '_>) -> Option<Vec<usize>> {
    let rank = g.input(0).shape().rank()?;
    let axes = g.input(1).fact().value?.to_ints()?;
    let axes = axes.into_iter().map(|a| resolve_axis(a, rank));
    let mut axes = axes.collect::<Option<Vec<_>>>()?;
    axes.sort_unstable();
    Some(axes)
}

/// Dimensions as a constant for `Reshape`.
fn dims_constant<'g>(graph: &'g Graph, dims: &[usize]) -> Option<Output<'g>> {
    let dims = dims.iter().map(|&d| i32::try_from(d).ok());
    Some(constant(graph, dims.collect::<Option<Vec<i32>>>()?))
}

/// Shape of the input as a tensor: a constant if it is known.
#[track_caller]
pub(super) fn input_shape<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let (graph, x) = (g.graph(), g.input(0));
    let known = x.shape().to_dims();
    let known = known.and_then(|dims| dims_constant(graph, &dims));
    known.unwrap_or_else(|| graph.op("Shape").input(x).output())
}

/// Reshapes `y`, which has the output's shape, so that reduced dimensions are 1: it then broadcasts with the input.
#[track_caller]
pub(super) fn keep_reduced_dims<'g>(g: &GradCx<'_, 'g>, y: Output<'g>) -> Output<'g> {
    if g.attrs().bool("keep_dims") {
        return y;
    }
    let graph = g.graph();
    let Some(axes) = axes(g) else {
        let shape = kept_shape(g);
        return graph.op("Reshape").input(y).input(shape).output();
    };
    if axes.is_empty() {
        return y;
    }
    let shape = g.input(0).shape();
    let dims = shape.dims().unwrap_or_default().iter().enumerate();
    let known: Option<SmallVec<[usize; 6]>> = dims
        .map(|(i, d)| if axes.contains(&i) { Some(1) } else { *d })
        .collect();
    if let Some(dims) = known.and_then(|dims| dims_constant(graph, &dims)) {
        return graph.op("Reshape").input(y).input(dims).output();
    }
    // In ascending order, so that each axis is inserted at its final position.
    axes.into_iter().fold(y, |y, axis| {
        let axis = constant(graph, axis as i32);
        graph.op("ExpandDims").input(y).input(axis).output()
    })
}

/// The input's shape with 1 for each reduced dimension, computed in the step.
#[track_caller]
fn kept_shape<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let graph = g.graph();
    let shape = graph.op("Shape").input(g.input(0)).output();
    let rank = graph.op("Rank").input(g.input(0)).output();
    let axes = graph.op("Cast").input(g.input(1)).attr("DstT", DType::I32);
    let flat = constant(graph, vec![-1]);
    let axes = graph.op("Reshape").input(axes.output()).input(flat);
    // Negative axes count from the end.
    let axes = graph.op("FloorMod").input(axes.output()).input(rank);
    let marks = graph.op("OneHot").input(axes.output()).input(rank);
    let marks = marks.input(constant(graph, 1)).input(constant(graph, 0));
    let reduced = graph.op("Sum").input(marks.output());
    let reduced = reduced.input(constant(graph, vec![0])).output();
    shape - shape * reduced + reduced
}

/// Broadcasts `y`, whose reduced dimensions are 1, to the input's shape.
#[track_caller]
pub(super) fn broadcast_to_input<'g>(g: &GradCx<'_, 'g>, y: Output<'g>) -> Output<'g> {
    if y.shape().is_known() && y.shape() == g.input(0).shape() {
        return y;
    }
    let op = g.graph().op("BroadcastTo").input(y);
    op.input(input_shape(g)).output()
}

/// Number of elements that each output reduces, as a scalar of the input's dtype.
#[track_caller]
pub(super) fn elements_per_output<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let (graph, x) = (g.graph(), g.input(0));
    let shape = x.shape();
    let known = axes(g).and_then(|axes| {
        let dims = axes.iter().map(|&i| shape.dim(i));
        dims.collect::<Option<SmallVec<[usize; 6]>>>()
    });
    if let Some(dims) = known {
        return x.constant_like(thalweg_tensor::shape::elements(&dims) as f64);
    }
    let size = |o: Output<'g>| graph.op("Size").input(o).output();
    // An empty input has no gradient elements to divide.
    let outputs = graph.op("Maximum").input(size(g.output(0)));
    let outputs = outputs.input(constant(graph, 1)).output();
    let count = graph.op("FloorDiv").input(size(x)).input(outputs);
    let count = graph.op("Cast").input(count.output());
    count.attr("DstT", x.dtype()).output()
}

/// Reduces `x`, which has the input's shape, by `op` over the node's own axes, which are kept as 1.
#[track_caller]
pub(super) fn reduce_same_axes<'g>(g: &GradCx<'_, 'g>, op: &str, x: Output<'g>) -> Output<'g> {
    let op = g.graph().op(op).input(x).input(g.input(1));
    op.attr("keep_dims", true).output()
}
