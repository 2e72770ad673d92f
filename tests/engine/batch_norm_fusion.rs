//! Fusion of batch normalizations with convolutions, sums and Relu: the results are those of the single nodes.

use thalweg::ops::{DataFormat, NnOps, Padding};
use thalweg::prelude::*;
use thalweg::session::Feed;

use super::fusion::{ACTIVATIONS, FORMATS, numbers, one_by_one};

const NORMS: [&str; 3] = ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"];

/// Runs `fetches` fused and unfused, twice each; the fused plan must have exactly these numbers of ops.
pub(super) fn assert_fused_matches(
    what: &str,
    fetches: &[Output<'_>],
    feeds: &[Feed<'_>],
    ops: &[(&str, usize)],
) {
    let g = fetches[0].graph();
    let (fused, plain) = (Session::new(g).unwrap(), one_by_one(g));
    let text = fused.explain(fetches, feeds).unwrap();
    let (_, program) = text.split_once("instructions").unwrap();
    for (op, times) in ops {
        let found = program.matches(&format!(" = {op} ")).count();
        assert_eq!(found, *times, "{what}, {op}:\n{text}");
    }
    let wanted: Vec<Vec<f32>> = plain.run(fetches, feeds).unwrap();
    // The second step uses the filter that the first one cached.
    for _ in 0..2 {
        let got: Vec<Vec<f32>> = fused.run(fetches, feeds).unwrap();
        for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
            assert_eq!(got.len(), wanted.len(), "{what}, {i}");
            for (got, wanted) in got.iter().zip(wanted) {
                let near = (got - wanted).abs() <= 1e-4 * (1.0 + wanted.abs());
                assert!(near, "{what}, {i}: {got}, {wanted}");
            }
        }
    }
}

/// Numbers of `f32` for each of these.
pub(super) fn feeds<'g>(inputs: &[Output<'g>]) -> Vec<Feed<'g>> {
    let value = |(i, x): (usize, &Output<'g>)| {
        let dims = x.shape().to_dims().unwrap();
        let all: Vec<f64> = numbers(&dims, i).to_vec().unwrap();
        // Variances are positive.
        let positive = x.name().contains("variance");
        let of = |x: f64| if positive { x.abs() + 0.5 } else { x };
        let all: Vec<f32> = all.into_iter().map(|x| of(x) as f32).collect();
        x.feed(Tensor::new(&dims, &all).unwrap())
    };
    inputs.iter().enumerate().map(value).collect()
}

/// Dimensions of images in a format.
pub(super) fn images(format: DataFormat, [n, h, w, c]: [usize; 4]) -> [usize; 4] {
    match format {
        DataFormat::Nhwc => [n, h, w, c],
        DataFormat::Nchw => [n, c, h, w],
    }
}

/// The scale, offset, mean and variance of a batch normalization.
fn moments<'g>(g: &'g Graph, channels: usize) -> [Output<'g>; 4] {
    ["scale", "offset", "mean", "variance"].map(|name| g.placeholder(name, DType::F32, [channels]))
}

/// Normalizes by the given mean and variance, or in training by the batch's own.
fn norm<'g>(
    op: &str,
    x: Output<'g>,
    moments: [Output<'g>; 4],
    format: DataFormat,
    training: bool,
) -> [Output<'g>; 3] {
    let node = x.graph().op(op).input(x).inputs(moments);
    let node = node.attr("epsilon", 0.01f32).attr("data_format", format);
    let node = node.attr("is_training", training).build();
    [0, 1, 2].map(|i| node.output(i))
}

/// A convolution followed by a batch normalization with given moments.
struct Layer<'g> {
    inputs: Vec<Output<'g>>,
    conv: Output<'g>,
    norm: [Output<'g>; 3],
}

fn layer<'g>(
    g: &'g Graph,
    op: &str,
    format: DataFormat,
    [x, filter]: [[usize; 4]; 2],
    training: bool,
) -> Layer<'g> {
    let x = g.placeholder("x", DType::F32, Shape::known(&images(format, x)));
    let f = g.placeholder("f", DType::F32, Shape::known(&filter));
    let moments = moments(g, filter[3]);
    let conv = x.conv2d(f, [1, 1], Padding::Same, format);
    Layer {
        inputs: [x, f].into_iter().chain(moments).collect(),
        conv,
        norm: norm(op, conv, moments, format, training),
    }
}

const SIZES: [[[usize; 4]; 2]; 4] = [
    // Tap by tap, by points, pixel by pixel, and with a filter that no cache holds.
    [[3, 9, 7, 4], [3, 3, 4, 19]],
    [[2, 9, 8, 32], [3, 3, 32, 40]],
    [[2, 7, 5, 12], [1, 1, 12, 21]],
    [[1, 4, 3, 200], [5, 3, 200, 130]],
];

#[test]
fn inference_batch_norms_and_relu_fuse_into_convolutions() {
    for (format, (sizes, op)) in FORMATS
        .into_iter()
        .flat_map(|f| SIZES.map(|s| (f, s)))
        .flat_map(|(f, s)| NORMS.map(|op| (f, (s, op))))
    {
        let g = Graph::new();
        let l = layer(&g, op, format, sizes, false);
        let what = format!("{format:?}, {sizes:?}, {op}");
        let ops = [("_FusedConv2D", 1), ("Conv2D", 0), (op, 0), ("Relu", 0)];
        let values = feeds(&l.inputs);
        assert_fused_matches(&what, &[l.norm[0]], &values, &ops);
        assert_fused_matches(&format!("{what}, relu"), &[l.norm[0].relu()], &values, &ops);
        let ops = [ops[0], ops[1], ops[2], ("Sigmoid", 0), ("Mul", 0)];
        let y = l.norm[0];
        assert_fused_matches(&format!("{what}, swish"), &[y * y.sigmoid()], &values, &ops);
    }
}

#[test]
fn a_residual_and_an_activation_fuse_into_convolutions() {
    for (format, (sizes, stride)) in FORMATS
        .into_iter()
        .flat_map(|f| SIZES.map(|s| (f, s)))
        .flat_map(|(f, s)| [1, 2].map(|stride| (f, (s, stride))))
    {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, Shape::known(&images(format, sizes[0])));
        let f = g.placeholder("f", DType::F32, Shape::known(&sizes[1]));
        let moments = moments(&g, sizes[1][3]);
        let conv = x.conv2d(f, [stride; 2], Padding::Same, format);
        let side = g.placeholder("side", DType::F32, conv.shape());
        let normed = norm(NORMS[2], conv, moments, format, false)[0];
        let biased = conv.bias_add(moments[1], format);
        let inputs: Vec<_> = [x, f, side].into_iter().chain(moments).collect();
        let values = feeds(&inputs);
        for (what, y) in [("norm", normed), ("bias", biased)] {
            let what = format!("{format:?}, {sizes:?}, {stride}, {what}");
            let ops = [("_FusedConv2D", 1), ("Conv2D", 0), ("AddV2", 0)];
            let sum = side + y;
            assert_fused_matches(&what, &[sum], &values, &ops);
            let ops = [ops[0], ops[1], ops[2], ("Relu", 0)];
            assert_fused_matches(&format!("{what}, relu"), &[sum.relu()], &values, &ops);
            let gate = (sum + g.constant(3.0f32)).relu6() * g.constant(1.0f32 / 6.0);
            let ops = [ops[0], ops[1], ops[2], ("Relu6", 0), ("Mul", 0)];
            assert_fused_matches(&format!("{what}, hard"), &[sum * gate], &values, &ops);
        }
    }
}

#[test]
fn a_bias_or_a_batch_norm_and_an_activation_fuse_into_depthwise_convolutions() {
    // Channels in whole groups and not, of one filter and of several, with strides.
    let sizes = [
        ([3, 9, 7, 37], 1, 1),
        ([1, 8, 20, 5], 2, 2),
        ([2, 6, 33, 4], 3, 1),
    ];
    for (format, (sizes, each, stride)) in FORMATS.into_iter().flat_map(|f| sizes.map(|s| (f, s))) {
        let (g, channels) = (Graph::new(), sizes[3] * each);
        let x = g.placeholder("x", DType::F32, Shape::known(&images(format, sizes)));
        let f = g.placeholder("f", DType::F32, [3, 3, sizes[3], each]);
        let moments = moments(&g, channels);
        let strides = images(format, [1, stride, stride, 1])
            .map(|n| n as i64)
            .to_vec();
        let conv = g.op("DepthwiseConv2dNative").input(x).input(f);
        let conv = conv.attr("strides", strides).attr("padding", "SAME");
        let conv = conv.attr("data_format", format).output();
        let normed = norm(NORMS[2], conv, moments, format, false)[0];
        let biased = conv.bias_add(moments[1], format);
        let inputs: Vec<_> = [x, f].into_iter().chain(moments).collect();
        let mut values = feeds(&inputs);
        // Some results are above 6.
        let all: Vec<f64> = numbers(&images(format, sizes), 0).to_vec().unwrap();
        let all: Vec<f32> = all.into_iter().map(|x| 8.0 * x as f32).collect();
        values[0] = x.feed(Tensor::new(&images(format, sizes), &all).unwrap());
        let ops = [
            ("_FusedDepthwiseConv2dNative", 1),
            ("DepthwiseConv2dNative", 0),
        ];
        let both = norm(NORMS[2], biased, moments, format, false)[0];
        for (what, y) in [("bias", biased), ("norm", normed), ("both", both)] {
            let what = format!("{format:?}, {sizes:?}, {each}, {what}");
            assert_fused_matches(&what, &[y], &values, &ops);
            for name in ACTIVATIONS {
                let last = g.op(name).input(y).output();
                let ops = [ops[0], ops[1], (name, 0)];
                assert_fused_matches(&format!("{what}, {name}"), &[last], &values, &ops);
            }
        }
    }
}

#[test]
fn a_constant_filter_is_cached_for_a_convolution_with_batch_norm() {
    for format in FORMATS {
        let g = Graph::new();
        let x = g.placeholder(
            "x",
            DType::F32,
            Shape::known(&images(format, [2, 9, 8, 32])),
        );
        let all: Vec<f64> = numbers(&[3, 3, 32, 40], 7).to_vec().unwrap();
        let all: Vec<f32> = all.into_iter().map(|x| x as f32).collect();
        let filter = g.constant(Tensor::new(&[3, 3, 32, 40], &all).unwrap());
        let moments = moments(&g, 40);
        let conv = x.conv2d(filter, [1, 1], Padding::Same, format);
        let y = norm(NORMS[2], conv, moments, format, false)[0].relu();
        let inputs: Vec<_> = [x].into_iter().chain(moments).collect();
        let ops = [("_FusedConv2D", 1)];
        assert_fused_matches(&format!("{format:?}"), &[y], &feeds(&inputs), &ops);
    }
}

#[test]
fn a_batch_norm_with_used_intermediates_does_not_fuse_into_the_convolution() {
    let sizes = [[2, 5, 5, 3], [3, 3, 3, 5]];
    let op = NORMS[2];
    let apart = [("_FusedConv2D", 0), ("Conv2D", 1)];
    for format in FORMATS {
        let g = Graph::new();
        let l = layer(&g, op, format, sizes, false);
        let values = feeds(&l.inputs);
        let y = l.norm[0];
        assert_fused_matches("the convolution is fetched", &[y, l.conv], &values, &apart);
        let twice = y * l.conv;
        assert_fused_matches("the convolution is used twice", &[twice], &values, &apart);
        assert_fused_matches("the mean is fetched", &[y, l.norm[1]], &values, &apart);
        assert_fused_matches("the mean is used", &[y, l.norm[1] + 1.0], &values, &apart);
        // The normalized value may be fetched: it is that of the single node.
        let both = [("_FusedConv2D", 1), (op, 0), ("Relu", 1)];
        assert_fused_matches("both are fetched", &[y, y.relu()], &values, &both);
        let g = Graph::new();
        let l = layer(&g, op, format, sizes, true);
        let values = feeds(&l.inputs);
        assert_fused_matches("training", &[l.norm[0].relu()], &values, &apart);
    }
}

#[test]
fn a_batch_norm_over_another_axis_does_not_fuse() {
    let g = Graph::new();
    // Equal numbers of lines and channels.
    let x = g.placeholder("x", DType::F32, [2, 5, 4, 3]);
    let f = g.placeholder("f", DType::F32, [3, 3, 3, 5]);
    let moments = moments(&g, 5);
    let conv = x.conv2d(f, [1, 1], Padding::Same, DataFormat::Nhwc);
    let y = norm(NORMS[2], conv, moments, DataFormat::Nchw, false)[0];
    let inputs: Vec<_> = [x, f].into_iter().chain(moments).collect();
    let apart = [("_FusedConv2D", 0), ("Conv2D", 1)];
    assert_fused_matches("axis", &[y], &feeds(&inputs), &apart);
}

#[test]
fn half_precision_batch_norms_do_not_fuse() {
    let g = Graph::new();
    let format = DataFormat::Nhwc;
    let x = g.placeholder("x", DType::F32, [2, 5, 4, 3]);
    let f = g.placeholder("f", DType::F32, [3, 3, 3, 5]);
    let moments = moments(&g, 5);
    let (half, filter) = (x.cast(DType::F16), f.cast(DType::F16));
    let conv = half.conv2d(filter, [1, 1], Padding::Same, format);
    let y = norm(NORMS[2], conv, moments, format, false)[0].relu();
    let inputs: Vec<_> = [x, f].into_iter().chain(moments).collect();
    let apart = [("_FusedConv2D", 0), ("Conv2D", 1), (NORMS[2], 1)];
    assert_fused_matches("halves", &[y.cast(DType::F32)], &feeds(&inputs), &apart);
}

#[test]
fn a_trace_lists_the_batch_norm_fused_into_a_convolution() {
    let g = Graph::new();
    let l = layer(&g, NORMS[2], DataFormat::Nhwc, SIZES[0], false);
    let y = l.norm[0].relu();
    let session = Session::new(&g).unwrap();
    let traced = RunOptions::new().traced();
    let (_, trace) = session.step_with(y, feeds(&l.inputs), &traced).unwrap();
    let fused = trace.events.iter().find(|e| e.op == "_FusedConv2D");
    assert_eq!(fused.unwrap().members.len(), 3, "{fused:?}");
    // A checked step runs node by node.
    let checked = RunOptions::new().checked();
    let options = checked.traced();
    let (_, trace) = session.step_with(y, feeds(&l.inputs), &options).unwrap();
    assert!(trace.events.iter().any(|e| e.op == NORMS[2]));
}

const EX: &str = "_FusedBatchNormEx";

/// Images, a value to add to them, and the inputs of a batch normalization.
fn images_and_side<'g>(
    g: &'g Graph,
    format: DataFormat,
    size: [usize; 4],
) -> ([Output<'g>; 2], [Output<'g>; 4]) {
    let dims = Shape::known(&images(format, size));
    let both = ["x", "side"].map(|name| g.placeholder(name, DType::F32, dims.clone()));
    (both, moments(g, size[3]))
}

/// The sums of two values, by op.
fn sums<'g>(a: Output<'g>, b: Output<'g>) -> [Output<'g>; 4] {
    let g = a.graph();
    let by = |op: &str, a, b| g.op(op).input(a).input(b).output();
    let list = g.op("AddN").inputs([a, b]).output();
    [a + b, b + a, by("Add", a, b), list]
}

#[test]
fn a_batch_norm_fuses_with_a_sum_and_a_relu() {
    let sizes = [[3, 5, 7, 3], [2, 9, 11, 70], [1, 1, 1, 5], [4, 33, 31, 16]];
    for ((format, size), (op, training)) in FORMATS
        .into_iter()
        .flat_map(|f| sizes.map(|s| (f, s)))
        .flat_map(|case| [(case, true), (case, false)])
        .flat_map(|(case, training)| NORMS.map(|op| (case, (op, training))))
    {
        let what = format!("{op}, {format:?}, {size:?}, {training}");
        let g = Graph::new();
        let ([x, side], moments) = images_and_side(&g, format, size);
        let y = norm(op, x, moments, format, training)[0];
        let inputs: Vec<_> = [x].into_iter().chain(moments).collect();
        let fused = [(EX, 1), (op, 0), ("Relu", 0)];
        let relu = y.relu();
        assert_fused_matches(&what, &[relu], &feeds(&inputs), &fused);
        assert_fused_matches(
            &format!("{what}, on"),
            &[relu.tanh()],
            &feeds(&inputs),
            &fused,
        );
        let inputs: Vec<_> = [x, side].into_iter().chain(moments).collect();
        for (i, sum) in sums(y, side).into_iter().enumerate() {
            let what = format!("{what}, sum {i}");
            assert_fused_matches(&what, &[sum.relu()], &feeds(&inputs), &fused);
            let on = sum.relu().tanh();
            assert_fused_matches(&format!("{what}, on"), &[on], &feeds(&inputs), &fused);
        }
    }
}

#[test]
fn a_fused_batch_norm_trains_as_its_single_nodes() {
    for (format, op) in FORMATS.into_iter().flat_map(|f| NORMS.map(|op| (f, op))) {
        let g = Graph::new();
        let ([x, side], moments) = images_and_side(&g, format, [3, 6, 5, 9]);
        let [y, mean, variance] = norm(op, x, moments, format, true);
        // As moving averages use them, before the Relu runs.
        let [moved, spread] = [mean * 0.9, variance * 0.9];
        let last = (y + side).relu().tanh();
        let towards = [x, side, moments[0], moments[1]];
        let grads = gradients(&[last], &towards).into_iter().flatten();
        let fetches: Vec<_> = [last, moved, spread].into_iter().chain(grads).collect();
        assert_eq!(fetches.len(), 7);
        let inputs: Vec<_> = [x, side].into_iter().chain(moments).collect();
        let grad = op.replace("Norm", "NormGrad");
        let ops = [(EX, 1), (op, 0), (&*grad, 1), ("ReluGrad", 1), ("Relu", 0)];
        assert_fused_matches(
            &format!("{format:?}, {op}"),
            &fetches,
            &feeds(&inputs),
            &ops,
        );
    }
}

#[test]
fn a_batch_norm_fuses_although_its_moments_are_used_later() {
    let format = DataFormat::Nhwc;
    let op = NORMS[2];
    let g = Graph::new();
    let ([x, side], moments) = images_and_side(&g, format, [2, 5, 4, 3]);
    let inputs: Vec<_> = [x, side].into_iter().chain(moments).collect();
    let [y, mean, _] = norm(op, x, moments, format, true);
    let early = mean * 2.0;
    let relu = (y + side.exp()).relu();
    let late = mean * 3.0;
    let on = relu.tanh();
    let values = feeds(&inputs);
    let fused = [(EX, 1), (op, 0), ("Relu", 0)];
    let apart = [(EX, 0), (op, 1), ("Relu", 1)];
    assert_fused_matches("alone", &[on], &values, &fused);
    assert_fused_matches("late", &[on, late], &values, &fused);
    assert_fused_matches("early", &[on, early], &values, &apart);
    // A fetched value is not overwritten in place.
    assert_fused_matches("fetched", &[relu, late], &values, &fused);
    assert_fused_matches("fetched, early", &[relu, early], &values, &apart);
}

#[test]
fn a_batch_norm_with_a_sum_may_overwrite_either_input() {
    for (format, training) in FORMATS.into_iter().flat_map(|f| [(f, true), (f, false)]) {
        let g = Graph::new();
        let ([x, side], moments) = images_and_side(&g, format, [2, 5, 7, 6]);
        let inputs: Vec<_> = [x, side].into_iter().chain(moments).collect();
        let values = feeds(&inputs);
        let (x, side) = (x.exp(), side.exp());
        let y = norm(NORMS[2], x, moments, format, training)[0];
        let (last, doubled) = ((y + side).relu().tanh(), (y + x).relu().tanh());
        let fused = [(EX, 1), ("Relu", 0)];
        let what = format!("{format:?}, {training}");
        assert_fused_matches(&format!("{what}, both end"), &[last], &values, &fused);
        assert_fused_matches(&format!("{what}, one ends"), &[last, x], &values, &fused);
        assert_fused_matches(&format!("{what}, other"), &[last, side], &values, &fused);
        assert_fused_matches(&format!("{what}, none"), &[last, side, x], &values, &fused);
        let inputs: Vec<_> = [inputs[0]].into_iter().chain(moments).collect();
        let values = feeds(&inputs);
        assert_fused_matches(&format!("{what}, itself"), &[doubled], &values, &fused);
    }
}

#[test]
fn a_sum_of_two_batch_norms_fuses_into_one_of_them() {
    let format = DataFormat::Nchw;
    let g = Graph::new();
    let ([x, side], moments) = images_and_side(&g, format, [2, 5, 7, 6]);
    let inputs: Vec<_> = [x, side].into_iter().chain(moments).collect();
    let [a, b] = [x, side].map(|x| norm(NORMS[2], x, moments, format, true)[0]);
    for sum in sums(a, b) {
        let ops = [(EX, 1), (NORMS[2], 1), ("Relu", 0)];
        assert_fused_matches("two", &[sum.relu().tanh()], &feeds(&inputs), &ops);
    }
}

#[test]
fn a_batch_norm_with_other_users_does_not_fuse() {
    let format = DataFormat::Nhwc;
    let op = NORMS[2];
    let g = Graph::new();
    let ([x, side], moments) = images_and_side(&g, format, [2, 5, 7, 6]);
    let inputs: Vec<_> = [x, side].into_iter().chain(moments).collect();
    let row = g.placeholder("row", DType::F32, [6]);
    let y = norm(op, x, moments, format, true)[0];
    let sum = y + side;
    let plain: Vec<_> = [x].into_iter().chain(moments).collect();
    let (plain, values) = (feeds(&plain), feeds(&inputs));
    let apart = [(EX, 0), (op, 1)];
    assert_fused_matches("fetched", &[y.relu(), y], &plain, &apart);
    assert_fused_matches("used twice", &[y.relu(), y.tanh()], &plain, &apart);
    assert_fused_matches("used twice by one", &[(y + y).relu()], &plain, &apart);
    assert_fused_matches("the sum is fetched", &[sum.relu(), sum], &values, &apart);
    assert_fused_matches(
        "the sum is used",
        &[sum.relu(), sum.tanh()],
        &values,
        &apart,
    );
    assert_fused_matches("no relu", &[sum], &values, &apart);
    let with_row: Vec<_> = [x, row].into_iter().chain(moments).collect();
    assert_fused_matches("a row", &[(y + row).relu()], &feeds(&with_row), &apart);
    let half = norm(op, x.cast(DType::F16), moments, format, true)[0];
    let half = half.relu().cast(DType::F32);
    assert_fused_matches("halves", &[half], &plain, &apart);
    let late = g.control_dependencies([y], || side.tanh());
    assert_fused_matches("waited for", &[y.relu(), late], &values, &apart);
}

#[test]
fn an_inference_batch_norm_prefers_its_convolution() {
    for format in FORMATS {
        let g = Graph::new();
        let l = layer(&g, NORMS[2], format, SIZES[0], false);
        let [n, h, w, _] = SIZES[0][0];
        let dims = Shape::known(&images(format, [n, h, w, SIZES[0][1][3]]));
        let side = g.placeholder("side", DType::F32, dims);
        let inputs: Vec<_> = l.inputs.into_iter().chain([side]).collect();
        let ops = [("_FusedConv2D", 1), (EX, 0), (NORMS[2], 0)];
        let y = (l.norm[0] + side).relu();
        assert_fused_matches(&format!("{format:?}"), &[y], &feeds(&inputs), &ops);
    }
}

#[test]
fn a_trace_lists_the_sum_and_relu_fused_into_a_batch_norm() {
    let format = DataFormat::Nhwc;
    let g = Graph::new();
    let ([x, side], moments) = images_and_side(&g, format, [2, 5, 7, 6]);
    let inputs: Vec<_> = [x, side].into_iter().chain(moments).collect();
    let y = (norm(NORMS[1], x, moments, format, true)[0] + side).relu();
    let session = Session::new(&g).unwrap();
    let traced = RunOptions::new().traced();
    let (_, trace) = session.step_with(y, feeds(&inputs), &traced).unwrap();
    let fused = trace.events.iter().find(|e| e.op == EX);
    assert_eq!(fused.unwrap().members.len(), 3, "{fused:?}");
}
