//! Graphs of images in NCHW on a GPU, after the pass.

use thalweg_graph::{Attr, Fact, Graph, GraphData, Node, Output, OutputId};
use thalweg_ops::{ArrayOps, DataFormat, MathOps, NnOps, Padding, ReduceOps, SourceOps, StateOps};
use thalweg_tensor::{DType, Shape, Tensor};

use super::with_channels_last;
use crate::compile::simplified;
use crate::request::{Fetch, Request};
use crate::testing::{Planner, graph};

const NCHW: DataFormat = DataFormat::Nchw;

/// The graph after the pass, with all nodes on device 1, a GPU, or on the CPU.
fn converted(fetches: &[Output<'_>], device: u32) -> GraphData {
    let g = fetches[0].graph();
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let planner = Planner::with_gpu().optimised();
    let data = g.snapshot();
    let placeholders = data.nodes().filter(|(_, n)| n.op.name == "Placeholder");
    let feeds: Vec<(OutputId, Fact)> = placeholders
        .map(|(node, n)| (OutputId { node, index: 0 }, n.outputs[0].clone()))
        .collect();
    let fetches: Vec<Fetch> = fetches.iter().map(|o| Fetch::Value(o.id())).collect();
    let request = Request {
        feeds: &feeds,
        fetches: &fetches,
        devices: &vec![device; data.len()],
        variables: &[],
    };
    let context = planner.context();
    let small = simplified(&data, &request, context).unwrap();
    let dims = |s: &thalweg_graph::simplify::Simplified| -> Vec<Shape> {
        let shape = |o: &OutputId| s.graph.fact(*o).unwrap().shape.clone();
        s.fetches.iter().map(shape).collect()
    };
    let before = dims(&small);
    let after = with_channels_last(small, context);
    assert_eq!(dims(&after), before);
    after.graph
}

/// The ops of a graph in order, without feeds and constants; those of NCHW marked.
fn ops(graph: &GraphData) -> Vec<String> {
    let name = |node: &Node| match node.attrs.get("data_format") {
        Some(Attr::Str(format)) if format == "NCHW" => format!("{} of NCHW", node.op.name),
        _ => node.op.name.to_owned(),
    };
    let all = graph.nodes().map(|(_, n)| name(n));
    all.filter(|op| !["_Feed", "Const"].contains(&op.as_str()))
        .collect()
}

/// The one node of an op.
fn only<'g>(graph: &'g GraphData, op: &str) -> &'g Node {
    let mut all = graph.nodes().filter(|(_, n)| n.op.name == op);
    let (_, node) = all
        .next()
        .unwrap_or_else(|| panic!("no {op}: {:?}", ops(graph)));
    assert!(all.next().is_none(), "two of {op}");
    node
}

fn ints(graph: &GraphData, node: &Node, input: usize) -> Vec<i64> {
    let value = graph.fact(node.inputs[input]).unwrap().value.as_ref();
    value.unwrap().to_ints().unwrap()
}

fn f32<'g>(g: &'g Graph, name: &str, dims: &[usize]) -> Output<'g> {
    g.placeholder(name, DType::F32, Shape::known(dims))
}

/// Images of 4 channels, 6 lines and 5 columns.
fn images(g: &Graph) -> Output<'_> {
    f32(g, "images", &[2, 4, 6, 5])
}

/// A convolution of 3 x 3 pixels from and to 4 channels.
fn conv(x: Output<'_>) -> Output<'_> {
    let filter = f32(x.graph(), "filter", &[3, 3, 4, 4]);
    x.conv2d(filter, [1, 1], Padding::Same, NCHW)
}

/// So many convolutions, one after the other: the Transposes before and behind them pay.
fn convs(x: Output<'_>, number: usize) -> Output<'_> {
    (0..number).fold(x, |x, _| conv(x))
}

#[test]
fn images_between_convolutions_stay_in_nhwc() {
    let g = graph();
    let x = conv(conv(images(&g)).relu()).bias_add(f32(&g, "bias", &[4]), NCHW);
    let pooled = conv((x + x).tanh()).max_pool([2, 2], [2, 2], Padding::Same, NCHW);
    let graph = converted(&[pooled.reduce_mean(&[2, 3], false)], 1);
    let expected = [
        "Transpose",
        "Conv2D",
        "Relu",
        "Conv2D",
        "BiasAdd",
        "AddV2",
        "Tanh",
        "Conv2D",
        "MaxPool",
        "Mean",
    ];
    assert_eq!(ops(&graph), expected);
    let mean = only(&graph, "Mean");
    assert_eq!(ints(&graph, mean, 1), [1, 2]);
    let pool = only(&graph, "MaxPool");
    assert_eq!(pool.outputs[0].shape, Shape::known(&[2, 3, 3, 4]));
    assert_eq!(pool.attrs.ints("ksize"), [1, 2, 2, 1]);
    let transpose = only(&graph, "Transpose");
    assert_eq!(ints(&graph, transpose, 1), [0, 2, 3, 1]);
}

#[test]
fn transposes_of_the_users_graph_between_the_orders_go() {
    let g = graph();
    let x = f32(&g, "images", &[2, 6, 5, 4]).transpose([0i32, 3, 1, 2]);
    let y = convs(x, 1).transpose([0i32, 2, 3, 1]);
    assert_eq!(ops(&converted(&[y], 1)), ["Conv2D"]);
    // One whose result is asked for is there.
    assert_eq!(ops(&converted(&[x, y], 1)), ["Conv2D", "Transpose"]);
}

#[test]
fn graphs_stay_where_transposes_would_not_pay_and_on_cpus() {
    let g = graph();
    let y = conv(images(&g)).relu();
    assert_eq!(ops(&converted(&[y], 1)), ["Conv2D of NCHW", "Relu"]);
    let x = convs(images(&g), 6);
    assert_eq!(ops(&converted(&[x], 0)), ["Conv2D of NCHW"; 6]);
}

#[test]
fn a_value_that_another_op_needs_in_nchw_is_there_in_both_orders() {
    let g = graph();
    let x = convs(images(&g), 4);
    // Sums over lines would have another order in NHWC.
    let rows = x.reduce_sum(&[2], false);
    let graph = converted(&[convs(x, 2), x, rows], 1);
    let mut expected = vec!["Transpose"];
    expected.extend(["Conv2D"; 4]);
    expected.extend(["Transpose", "Sum", "Conv2D", "Conv2D", "Transpose"]);
    let mut found = ops(&graph);
    let mut sorted = expected.clone();
    sorted.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, sorted);
}

#[test]
fn a_row_for_each_line_is_added_in_nchw() {
    let g = graph();
    let x = convs(images(&g), 8);
    let y = convs(x + f32(&g, "row", &[5]), 8);
    let all = ops(&converted(&[y], 1));
    assert_eq!(all.iter().filter(|op| *op == "Transpose").count(), 4);
}

#[test]
fn numbers_for_dimensions_move_with_them() {
    let g = graph();
    let x = convs(images(&g), 8);
    let other = convs(x, 1);
    let joined = g.op("ConcatV2").inputs([x, other]).input(g.constant(-3i32));
    let joined = joined.attr("N", Attr::Int(2)).output();
    let paddings = g.constant([[0i32, 0], [0, 0], [1, 2], [3, 0]]);
    let padded = g.op("Pad").input(joined).input(paddings).output();
    let cut = g.op("Slice").input(padded);
    let cut = cut.input(g.constant([0i32, 2, 1, 0]));
    let cut = cut.input(g.constant([2i32, 4, 6, -1])).output();
    let parts = g.op("Split").input(g.constant(1i32)).input(cut);
    let parts = parts.attr("num_split", Attr::Int(2)).outputs();
    let scaled = parts[0] * f32(&g, "scales", &[1, 2, 1, 1]) * g.constant(2.0f32);
    let graph = converted(&[scaled.reduce_sum(&[0, 2, 3], false)], 1);
    let [concat, pad, slice, split] =
        ["ConcatV2", "Pad", "Slice", "Split"].map(|op| only(&graph, op));
    assert_eq!(ints(&graph, concat, 2), [3]);
    assert_eq!(ints(&graph, pad, 1), [0, 0, 1, 2, 3, 0, 0, 0]);
    assert_eq!(ints(&graph, slice, 1), [0, 1, 0, 2]);
    assert_eq!(ints(&graph, slice, 2), [2, 6, -1, 4]);
    assert_eq!(ints(&graph, split, 0), [3]);
    assert_eq!(split.outputs[1].shape, Shape::known(&[2, 6, 8, 2]));
    assert_eq!(ints(&graph, only(&graph, "Sum"), 1), [0, 1, 2]);
    // The scales have one pixel, and so the same elements in both orders.
    let shape = only(&graph, "Reshape");
    assert_eq!(shape.outputs[0].shape, Shape::known(&[1, 1, 1, 2]));
    only(&graph, "Transpose");
}

#[test]
fn a_number_for_each_channel_is_added_in_nhwc() {
    let g = graph();
    let fed = f32(&g, "row", &[4, 1, 1]);
    let known = g.constant(Tensor::new(&[4, 1, 1], &[1f32, 2.0, 3.0, 4.0]).unwrap());
    let x = convs(images(&g), 8);
    let graph = converted(&[convs((x + fed) * known, 8)], 1);
    let row = only(&graph, "Reshape");
    assert_eq!(row.outputs[0].shape, Shape::known(&[4]));
    let product = only(&graph, "Mul");
    let value = graph.fact(product.inputs[1]).unwrap().value.as_ref();
    assert_eq!(value.unwrap(), &Tensor::from([1f32, 2.0, 3.0, 4.0]));
}

#[test]
fn constant_images_move_before_the_step() {
    let g = graph();
    let all: Vec<f32> = (0..120).map(|i| i as f32).collect();
    let mask = g.constant(Tensor::new(&[1, 4, 6, 5], &all).unwrap());
    let graph = converted(&[convs(convs(images(&g), 8) * mask, 8)], 1);
    let value = graph.fact(only(&graph, "Mul").inputs[1]).unwrap();
    let value = value.value.as_ref().unwrap();
    assert_eq!(value.dims(), [1, 6, 5, 4]);
    // The channels of the first pixel, and then of the second.
    assert_eq!(
        value.as_slice::<f32>().unwrap()[..6],
        [0.0, 30.0, 60.0, 90.0, 1.0, 31.0]
    );
    let transposes = ops(&graph).iter().filter(|op| *op == "Transpose").count();
    assert_eq!(transposes, 2);
}

#[test]
fn transposes_that_the_graph_had_do_not_count() {
    let g = graph();
    let x = convs(images(&g), 8);
    // A softmax along the last axis needs its operand in NCHW.
    let beside = f32(&g, "beside", &[64, 64, 64, 4]).transpose([0i32, 3, 1, 2]);
    let rows = beside.softmax();
    let all = ops(&converted(&[x, rows], 1));
    assert!(!all.contains(&"Conv2D of NCHW".to_owned()), "{all:?}");
}

#[test]
fn a_node_that_waits_for_an_update_stays_before_those_behind_it() {
    let g = graph();
    let x = convs(images(&g), 8);
    let counter = g.variable("counter", 0.0f32);
    let axes = g.op("Const").attr("dtype", DType::I32);
    let axes = axes.attr("value", Attr::Tensor(Tensor::from([2i32, 3])));
    let axes = axes.control(counter.assign_add(1.0f32)).output();
    let rows = g.op("Sum").input(x).input(axes).output();
    let graph = converted(&[rows, convs(x, 1)], 1);
    let sum = only(&graph, "Sum");
    let waits = !graph.node(sum.inputs[1].node).controls.is_empty();
    assert!(waits && ints(&graph, sum, 1) == [2, 3]);
}
