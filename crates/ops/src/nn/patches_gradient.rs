//! Gradient of ops that extract windows: of images and of volumes.

use smallvec::smallvec;
use thalweg_graph::op::InputGradients;
use thalweg_graph::{GradCx, Output};
use thalweg_tensor::DType;

use crate::support::gradient_nodes::{int_scalar, int_vector};

/// The gradient of the input `[batch, axes..., depth]` of an op of this name, with `axes` axes of space; `attrs` are its
/// attributes that are lists.
///
/// Each element gets the sum of the gradients of all windows that contain it. The same op applied to the elements'
/// indices, from 1, gives the elements that each window contains.
pub(super) fn patches_gradient<'g>(
    g: &GradCx<'_, 'g>,
    op: &'static str,
    axes: usize,
    attrs: &[&'static str],
) -> InputGradients<'g> {
    let (graph, x, dy) = (g.graph(), g.input(0), g.grad());
    let int = |value: i64| int_scalar(graph, DType::I32, value);
    let ints = |values: &[i64]| int_vector(graph, DType::I32, values);
    let reshape = |x: Output<'g>, to: Output<'g>| graph.op("Reshape").input(x).input(to).output();
    let dim = |of: Output<'g>, i: usize| {
        let node = graph.op("GatherV2").input(of).input(int(i as i64));
        node.input(int(0)).output()
    };
    let pack = |of: Vec<Output<'g>>| {
        let count = of.len() as i64;
        graph.op("Pack").inputs(of).attr("N", count).output()
    };
    let turned =
        |x: Output<'g>, order: &[i64]| graph.op("Transpose").input(x).input(ints(order)).output();
    let from = graph.op("Shape").input(x).output();
    let (batch, depth) = (dim(from, 0), dim(from, axes + 1));
    let lengths: Vec<Output<'g>> = (1..=axes).map(|i| dim(from, i)).collect();
    let places = lengths.iter().copied().reduce(|a, b| a * b);
    let places = places.unwrap_or_else(|| int(1));
    let all = graph.op("Range").input(int(1)).input(places + 1);
    let one_image = [vec![int(1)], lengths, vec![int(1)]].concat();
    let numbers = reshape(all.input(int(1)).output(), pack(one_image));
    let mut numbers = graph.op(op).input(numbers);
    for name in attrs {
        numbers = numbers.attr(name, g.attrs().ints(name).to_vec());
    }
    let numbers = numbers.attr("padding", g.attrs().str("padding")).output();
    let ids = reshape(numbers, ints(&[-1])) - 1;
    // [image, window and element of it, channel] to [window and element of it, image, channel].
    let each = pack(vec![batch, graph.op("Size").input(numbers).output(), depth]);
    let rows = turned(reshape(dy, each), &[1, 0, 2]);
    let sums = graph.op("UnsortedSegmentSum").input(rows).input(ids);
    let sums = turned(sums.input(places).output(), &[1, 0, 2]);
    smallvec![Some(reshape(sums, from))]
}
