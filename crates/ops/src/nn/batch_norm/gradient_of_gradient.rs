//! Second derivative of batch normalization: the gradient is written out in ops that have gradients, as in
//! TensorFlow's `_BatchNormGrad`.

use smallvec::smallvec;
use thalweg_graph::op::InputGradients;
use thalweg_graph::{GradCx, Output, gradients_with};
use thalweg_tensor::DType;

use super::attributes::axis_of;
use crate::support::constants::ints;

/// Gradients with respect to `y_backprop`, `x` and `scale`; the reserved values depend on `x`, or are constant.
pub(super) fn second_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let graph = g.graph();
    // New nodes, so that only gradients of these uses are computed.
    let own = |i: usize| graph.op("Identity").input(g.input(i)).output();
    let inputs = [own(0), own(1), own(2)];
    let wide = |x: Output<'g>| match x.dtype() {
        DType::F32 => x,
        _ => graph.op("Cast").input(x).attr("DstT", DType::F32).output(),
    };
    let [dy, x, scale] = inputs.map(wide);

    let (axis, rank) = axis_of(g.attrs());
    let others: Vec<i32> = (0..rank).filter(|&i| i != axis).map(|i| i as i32).collect();
    let others = ints(graph, &others);
    let along = |op: &str, x: Output<'g>| {
        let node = graph.op(op).input(x).input(others);
        node.attr("keep_dims", true).output()
    };
    let reshaped = |x: Output<'g>, dims: &[i32]| {
        let node = graph.op("Reshape").input(x);
        node.input(ints(graph, dims)).output()
    };
    let mut dims = vec![1; rank];
    dims[axis] = -1;
    let of_channels = |x: Output<'g>| reshaped(x, &dims);
    let one = |op: &str, x: Output<'g>| graph.op(op).input(x).output();
    let epsilon = f64::from(g.attrs().float("epsilon"));

    let training = g.attrs().bool("is_training");
    let (mean, variance) = if training {
        let mean = along("Mean", x);
        let distance = x - one("StopGradient", mean);
        (mean, along("Mean", one("Square", distance)))
    } else {
        (of_channels(g.input(3)), of_channels(g.input(4)))
    };
    let rate = one("Rsqrt", variance + epsilon);
    let above = x - mean;
    let products = dy * above;
    let scaled = of_channels(scale) * rate;
    let dx = if training {
        scaled * (dy - along("Mean", dy) - above * rate * rate * along("Mean", products))
    } else {
        scaled * dy
    };
    let dx = match g.input(1).dtype() {
        DType::F32 => dx,
        dtype => graph.op("Cast").input(dx).attr("DstT", dtype).output(),
    };
    let to_scale = reshaped(rate * along("Sum", products), &[-1]);
    let to_offset = reshaped(along("Sum", dy), &[-1]);

    let outputs = [dx, to_scale, to_offset];
    let requested = (0..3).filter_map(|i| Some((outputs[i], g.dy(i)?)));
    let (ys, given): (Vec<_>, Vec<_>) = requested.map(|(y, d)| (y, Some(d))).unzip();
    if ys.is_empty() {
        return smallvec![];
    }
    gradients_with(&ys, &inputs, &given, &[])
        .into_iter()
        .collect()
}
