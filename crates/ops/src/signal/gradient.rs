//! Gradients of Fourier transforms: each is a transform in the other direction.

use smallvec::smallvec;
use thalweg_graph::op::InputGradients;
use thalweg_graph::{GradCx, Output};
use thalweg_tensor::DType;

use crate::support::constants::ints;
use crate::support::gradient_nodes::{int_scalar, shape_of};

/// Name of a transform of complex numbers.
fn name(rank: usize, forward: bool) -> &'static str {
    match (rank, forward) {
        (1, true) => "FFT",
        (2, true) => "FFT2D",
        (_, true) => "FFT3D",
        (1, false) => "IFFT",
        (2, false) => "IFFT2D",
        (_, false) => "IFFT3D",
    }
}

/// The product of a vector of lengths, as a scalar of `dtype`.
fn product(lengths: Output<'_>, dtype: DType) -> Output<'_> {
    let graph = lengths.graph();
    let product = graph.op("Prod").input(lengths).input(ints(graph, &[0]));
    let cast = graph.op("Cast").input(product.output());
    cast.attr("DstT", dtype).output()
}

/// The last `rank` dimensions of `x`.
fn last_dims(x: Output<'_>, rank: usize) -> Output<'_> {
    let graph = x.graph();
    let slice = graph.op("StridedSlice").input(shape_of(x, DType::I32));
    let slice = slice.input(ints(graph, &[-(rank as i32)]));
    let slice = slice.input(ints(graph, &[0])).input(ints(graph, &[1]));
    slice.attr("end_mask", 1).output()
}

/// Gradient of a transform of complex numbers: the one in the other direction, without its scale.
pub(super) fn complex_gradient<'g, const RANK: usize, const FORWARD: bool>(
    g: &GradCx<'_, 'g>,
) -> InputGradients<'g> {
    let (x, dy) = (g.input(0), g.grad());
    let size = product(last_dims(x, RANK), dy.dtype());
    let back = g.graph().op(name(RANK, !FORWARD)).input(dy).output();
    smallvec![Some(match FORWARD {
        true => back * size,
        false => back / size,
    })]
}

/// The last element of a vector.
fn last(lengths: Output<'_>) -> Output<'_> {
    let graph = lengths.graph();
    let slice = graph.op("StridedSlice").input(lengths);
    let slice = slice.input(ints(graph, &[-1])).input(ints(graph, &[0]));
    let slice = slice.input(ints(graph, &[1]));
    slice
        .attr("end_mask", 1)
        .attr("shrink_axis_mask", 1)
        .output()
}

/// `dx` with zeros after it along each dimension, up to the shape of `x`, of which the transform took the beginning.
fn padded_to<'g>(dx: Output<'g>, x: Output<'g>) -> Output<'g> {
    if dx.shape().is_known() && dx.shape() == x.shape() {
        return dx;
    }
    let graph = dx.graph();
    let more = shape_of(x, DType::I32) - shape_of(dx, DType::I32);
    let none = graph.op("ZerosLike").input(more).output();
    let amounts = graph.op("Pack").inputs([none, more]).attr("axis", 1);
    graph.op("Pad").input(dx).input(amounts.output()).output()
}

/// Gradient of a transform of real numbers: the real part of the gradient of the whole transform, of whose output the
/// second half is not there.
pub(super) fn forward_gradient<'g, const RANK: usize>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, x, lengths, dy) = (g.graph(), g.input(0), g.input(1), g.grad());
    let length = last(lengths);
    let half = last(last_dims(dy, 1));
    let missing = graph
        .op("Pack")
        .inputs([int_scalar(graph, DType::I32, 0), length - half]);
    // The half has at least as many numbers as are missing.
    let missing = graph
        .op("StridedSlice")
        .input(dy)
        .input(ints(graph, &[0, 0]))
        .input(missing.output())
        .input(ints(graph, &[1, 1]))
        .attr("ellipsis_mask", 1);
    let zeros = graph.op("ZerosLike").input(missing.output()).output();
    let whole = graph.op("ConcatV2").inputs([dy, zeros]);
    let whole = whole.input(int_scalar(graph, DType::I32, -1)).output();
    let back = graph.op(name(RANK, false)).input(whole).output();
    let real = graph
        .op("Real")
        .input(back)
        .attr("Tout", x.dtype())
        .output();
    let dx = real * product(lengths, x.dtype());
    smallvec![Some(padded_to(dx, x)), None]
}

/// Gradient of a transform to real numbers: a number of the half spectrum counts for its conjugate in the other half
/// too, but for the first, and of an even length the last.
pub(super) fn inverse_gradient<'g, const RANK: usize>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, x, lengths, dy) = (g.graph(), g.input(0), g.input(1), g.grad());
    let forward = ["RFFT", "RFFT2D", "RFFT3D"][RANK - 1];
    let spectrum = graph.op(forward).input(dy).input(lengths);
    let spectrum = spectrum.attr("Tcomplex", x.dtype()).output();
    let int = |value: i64| int_scalar(graph, DType::I32, value);
    let count = last(last_dims(spectrum, 1));
    let places = graph.op("Range").input(int(0)).input(count).input(int(1));
    let twice = places.output() * 2;
    let equal = |to: Output<'g>| graph.op("Equal").input(twice).input(to).output();
    let alone = graph
        .op("LogicalOr")
        .input(equal(int(0)))
        .input(equal(last(lengths)));
    let times = graph
        .op("SelectV2")
        .input(alone.output())
        .input(int(1))
        .input(int(2));
    let times = graph
        .op("Cast")
        .input(times.output())
        .attr("DstT", x.dtype())
        .output();
    let dx = spectrum * (times / product(lengths, x.dtype()));
    smallvec![Some(padded_to(dx, x)), None]
}
