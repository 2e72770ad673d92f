//! Batch normalizations that are computed with what is around them give what they give by themselves.

use thalweg::ops::{DataFormat, NnOps, Padding};
use thalweg::prelude::*;
use thalweg::session::Feed;

use super::fused::{FORMATS, numbers, one_by_one};

const NORMS: [&str; 3] = ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"];

/// Runs `fetches` both ways, twice; what is planned must have these ops, each as often.
fn same(what: &str, fetches: &[Output<'_>], feeds: &[Feed<'_>], ops: &[(&str, usize)]) {
    let g = fetches[0].graph();
    let (fused, plain) = (Session::new(g).unwrap(), one_by_one(g));
    let text = fused.explain(fetches, feeds).unwrap();
    let (_, program) = text.split_once("instructions").unwrap();
    for (op, times) in ops {
        let found = program.matches(&format!(" = {op} ")).count();
        assert_eq!(found, *times, "{what}, {op}:\n{text}");
    }
    let wanted: Vec<Vec<f32>> = plain.run(fetches, feeds).unwrap();
    // The second step has what the first one kept of a filter.
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
fn feeds<'g>(inputs: &[Output<'g>]) -> Vec<Feed<'g>> {
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

/// Images of so many lines, columns and channels.
fn images(format: DataFormat, [n, h, w, c]: [usize; 4]) -> [usize; 4] {
    match format {
        DataFormat::Nhwc => [n, h, w, c],
        DataFormat::Nchw => [n, c, h, w],
    }
}

/// What a batch normalization takes beside its images.
fn moments<'g>(g: &'g Graph, channels: usize) -> [Output<'g>; 4] {
    ["scale", "offset", "mean", "variance"].map(|name| g.placeholder(name, DType::F32, [channels]))
}

/// Normalizes by the mean and the variance that are given, or in training by their own.
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

/// A convolution and a batch normalization behind it, by numbers that are given.
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
fn a_convolution_takes_a_batch_norm_by_given_moments_and_a_relu() {
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
        same(&what, &[l.norm[0]], &values, &ops);
        same(&format!("{what}, relu"), &[l.norm[0].relu()], &values, &ops);
    }
}

#[test]
fn a_filter_that_stays_is_kept_for_a_convolution_with_a_batch_norm() {
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
        same(&format!("{format:?}"), &[y], &feeds(&inputs), &ops);
    }
}

#[test]
fn a_batch_norm_that_others_look_into_is_not_the_convolutions() {
    let sizes = [[2, 5, 5, 3], [3, 3, 3, 5]];
    let op = NORMS[2];
    let apart = [("_FusedConv2D", 0), ("Conv2D", 1)];
    for format in FORMATS {
        let g = Graph::new();
        let l = layer(&g, op, format, sizes, false);
        let values = feeds(&l.inputs);
        let y = l.norm[0];
        same("the convolution is fetched", &[y, l.conv], &values, &apart);
        let twice = y * l.conv;
        same("the convolution is used twice", &[twice], &values, &apart);
        same("the mean is fetched", &[y, l.norm[1]], &values, &apart);
        same("the mean is used", &[y, l.norm[1] + 1.0], &values, &apart);
        // What is normalized may be fetched: it is what the node gives.
        let both = [("_FusedConv2D", 1), (op, 0), ("Relu", 1)];
        same("both are fetched", &[y, y.relu()], &values, &both);
        let g = Graph::new();
        let l = layer(&g, op, format, sizes, true);
        let values = feeds(&l.inputs);
        same("training", &[l.norm[0].relu()], &values, &apart);
    }
}

#[test]
fn a_batch_norm_of_another_axis_is_not_the_convolutions() {
    let g = Graph::new();
    // As many lines as channels.
    let x = g.placeholder("x", DType::F32, [2, 5, 4, 3]);
    let f = g.placeholder("f", DType::F32, [3, 3, 3, 5]);
    let moments = moments(&g, 5);
    let conv = x.conv2d(f, [1, 1], Padding::Same, DataFormat::Nhwc);
    let y = norm(NORMS[2], conv, moments, DataFormat::Nchw, false)[0];
    let inputs: Vec<_> = [x, f].into_iter().chain(moments).collect();
    let apart = [("_FusedConv2D", 0), ("Conv2D", 1)];
    same("axis", &[y], &feeds(&inputs), &apart);
}

#[test]
fn halves_are_normalized_by_themselves() {
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
    same("halves", &[y.cast(DType::F32)], &feeds(&inputs), &apart);
}

#[test]
fn a_trace_tells_of_the_batch_norm_that_ran_with_its_convolution() {
    let g = Graph::new();
    let l = layer(&g, NORMS[2], DataFormat::Nhwc, SIZES[0], false);
    let y = l.norm[0].relu();
    let session = Session::new(&g).unwrap();
    let traced = RunOptions::new().traced();
    let (_, trace) = session.step_with(y, feeds(&l.inputs), &traced).unwrap();
    let fused = trace.events.iter().find(|e| e.op == "_FusedConv2D");
    assert_eq!(fused.unwrap().members.len(), 3, "{fused:?}");
    // What is looked at runs node by node.
    let checked = RunOptions::new().checked();
    let options = checked.traced();
    let (_, trace) = session.step_with(y, feeds(&l.inputs), &options).unwrap();
    assert!(trace.events.iter().any(|e| e.op == NORMS[2]));
}
