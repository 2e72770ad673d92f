//! Each rule on a graph that it changes, and on graphs that differ in one condition.

use thalweg_graph::{Attr, Fact, Graph, Output, OutputId};
use thalweg_ops::fused::MEMBERS;
use thalweg_ops::{DataFormat, LinalgOps, MathOps, NnOps, Padding, SourceOps};
use thalweg_tensor::{DType, Tensor};

use crate::compile::simplified;
use crate::request::{Fetch, PlanContext, Request};
use crate::testing::{Planner, graph};

const NHWC: DataFormat = DataFormat::Nhwc;
const NCHW: DataFormat = DataFormat::Nchw;

/// A graph under test: the outputs to fetch.
type Build = for<'g> fn(&'g Graph) -> Vec<Output<'g>>;

/// The ops of the fused graph, in order, without feeds and constants. Nodes named `far...` are on another CPU.
fn fused(build: Build) -> Vec<&'static str> {
    let planner = Planner::cpus(&[1, 1]);
    let g = graph();
    let fetches: Vec<Fetch> = build(&g).iter().map(|o| Fetch::Value(o.id())).collect();
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let data = g.snapshot();
    let placeholders = data.nodes().filter(|(_, n)| n.op.name == "Placeholder");
    let feeds: Vec<(OutputId, Fact)> = placeholders
        .map(|(node, n)| (OutputId { node, index: 0 }, n.outputs[0].clone()))
        .collect();
    let far = |name: &str| u32::from(name.starts_with("far"));
    let devices: Vec<u32> = data.nodes().map(|(_, n)| far(&n.name)).collect();
    let request = Request {
        feeds: &feeds,
        fetches: &fetches,
        devices: &devices,
        variables: &[],
    };
    let context = PlanContext {
        fuse: true,
        ..planner.context()
    };
    let small = simplified(&data, &request, context).unwrap();
    let fused = super::fused(small, context).graph;
    let ops = fused.nodes().map(|(_, n)| n.op.name);
    ops.filter(|op| !["_Feed", "Const"].contains(op)).collect()
}

fn check(cases: &[(&str, Build, &[&str])]) {
    for (case, build, expected) in cases {
        assert_eq!(fused(*build), *expected, "{case}");
    }
}

fn f32<'g>(g: &'g Graph, name: &str, dims: &[usize]) -> Output<'g> {
    g.placeholder(name, DType::F32, thalweg_tensor::Shape::known(dims))
}

/// A product of `[4, 5]` and `[5, 3]`.
fn product(g: &Graph) -> Output<'_> {
    f32(g, "a", &[4, 5]).matmul(f32(g, "b", &[5, 3]))
}

/// A convolution of 3 channels to 6, in which the images' channels come last or first.
fn conv(g: &Graph, format: DataFormat) -> Output<'_> {
    let x = match format {
        NHWC => f32(g, "x", &[2, 6, 6, 3]),
        NCHW => f32(g, "x", &[2, 3, 6, 6]),
    };
    x.conv2d(f32(g, "w", &[3, 3, 3, 6]), [1, 1], Padding::Same, format)
}

/// A depthwise convolution of 3 channels to 6.
fn depthwise(g: &Graph) -> Output<'_> {
    let node = g
        .op("DepthwiseConv2dNative")
        .input(f32(g, "x", &[2, 6, 6, 3]));
    let node = node.input(f32(g, "w", &[3, 3, 3, 2]));
    let node = node.attr("strides", vec![1i64; 4]).attr("padding", "SAME");
    node.output()
}

#[test]
fn a_bias_and_an_activation_behind_a_product_become_its_epilogue() {
    check(&[
        (
            "bias and Relu",
            |g| vec![product(g).bias_add(f32(g, "c", &[3]), NHWC).relu()],
            &["_FusedMatMul"],
        ),
        (
            "a sum is a bias on either side",
            |g| vec![f32(g, "c", &[3]) + product(g)],
            &["_FusedMatMul"],
        ),
        (
            "bias and Relu6",
            |g| {
                let sum = product(g).bias_add(f32(g, "c", &[3]), NHWC);
                vec![g.op("Relu6").input(sum).output()]
            },
            &["_FusedMatMul"],
        ),
        (
            "an activation that kernels do not have",
            |g| vec![product(g).bias_add(f32(g, "c", &[3]), NHWC).tanh()],
            &["_FusedMatMul", "Tanh"],
        ),
        (
            "an activation without a bias",
            |g| vec![product(g).relu()],
            &["MatMul", "Relu"],
        ),
        (
            "a fetched product",
            |g| {
                let y = product(g);
                vec![y, y.bias_add(f32(g, "c", &[3]), NHWC)]
            },
            &["MatMul", "BiasAdd"],
        ),
        (
            "a matrix in place of a bias",
            |g| vec![product(g) + f32(g, "c", &[4, 3])],
            &["MatMul", "AddV2"],
        ),
        (
            "one number in place of a bias",
            |g| vec![product(g) + f32(g, "c", &[1])],
            &["MatMul", "AddV2"],
        ),
        (
            "both sides of the sum are the product",
            |g| {
                let y = product(g);
                vec![y + y]
            },
            &["MatMul", "AddV2"],
        ),
        (
            "a product on another device",
            |g| vec![product(g).named("far") + f32(g, "c", &[3])],
            &["MatMul", "AddV2"],
        ),
        (
            "integers",
            |g| {
                let of = |name, dims: [i64; 2]| g.placeholder(name, DType::I32, dims);
                let y = of("a", [4, 5]).matmul(of("b", [5, 3]));
                vec![y + g.placeholder("c", DType::I32, [3])]
            },
            &["MatMul", "AddV2"],
        ),
        (
            "rows that are known only at run time",
            |g| {
                let rows = g.placeholder("rows", DType::I32, [2]);
                let a = g
                    .op("Reshape")
                    .input(f32(g, "a", &[20]))
                    .input(rows)
                    .output();
                vec![a.matmul(f32(g, "b", &[5, 3])) + f32(g, "c", &[3])]
            },
            &["Reshape", "MatMul", "AddV2"],
        ),
    ]);
}

#[test]
fn a_bias_along_the_channels_becomes_the_epilogue_of_a_convolution() {
    check(&[
        (
            "channels last",
            |g| vec![conv(g, NHWC).bias_add(f32(g, "c", &[6]), NHWC).relu()],
            &["_FusedConv2D"],
        ),
        (
            "channels first",
            |g| vec![conv(g, NCHW).bias_add(f32(g, "c", &[6]), NCHW)],
            &["_FusedConv2D"],
        ),
        (
            "a sum over the channels",
            |g| vec![conv(g, NHWC) + f32(g, "c", &[6])],
            &["_FusedConv2D"],
        ),
        (
            "a sum along columns of as many pixels as channels",
            |g| vec![conv(g, NCHW) + f32(g, "c", &[6])],
            &["Conv2D", "AddV2"],
        ),
        (
            "a bias along another dimension",
            |g| vec![conv(g, NCHW).bias_add(f32(g, "c", &[6]), NHWC)],
            &["Conv2D", "BiasAdd"],
        ),
    ]);
}

const NORM: &str = "FusedBatchNormV3";

/// A batch normalization of the images; its images, mean and variance.
fn norm<'g>(x: Output<'g>, channels: usize, format: DataFormat, training: bool) -> Vec<Output<'g>> {
    let g = x.graph();
    let moments = ["scale", "offset", "mean", "variance"].map(|n| f32(g, n, &[channels]));
    let node = g.op(NORM).input(x).inputs(moments);
    let node = node.attr("epsilon", 0.01f32).attr("data_format", format);
    node.attr("is_training", training).outputs()
}

#[test]
fn a_batch_normalization_by_given_moments_becomes_the_epilogue_of_a_convolution() {
    check(&[
        (
            "with a Relu",
            |g| vec![norm(conv(g, NHWC), 6, NHWC, false)[0].relu()],
            &["_FusedConv2D"],
        ),
        (
            "without",
            |g| vec![norm(conv(g, NCHW), 6, NCHW, false)[0]],
            &["_FusedConv2D"],
        ),
        (
            "of a convolution with a bias, with a Relu",
            |g| {
                let y = conv(g, NHWC).bias_add(f32(g, "c", &[6]), NHWC);
                vec![norm(y, 6, NHWC, false)[0].relu()]
            },
            &["_FusedConv2D"],
        ),
        (
            "of a convolution with a bias that is fetched",
            |g| {
                let y = conv(g, NHWC).bias_add(f32(g, "c", &[6]), NHWC);
                vec![y, norm(y, 6, NHWC, false)[0]]
            },
            &["_FusedConv2D", NORM],
        ),
        (
            "of a depthwise convolution, with a Relu6",
            |g| {
                let y = norm(depthwise(g), 6, NHWC, false)[0];
                vec![g.op("Relu6").input(y).output()]
            },
            &["_FusedDepthwiseConv2dNative"],
        ),
        (
            "a bias of a depthwise convolution",
            |g| vec![depthwise(g).bias_add(f32(g, "c", &[6]), NHWC)],
            &["_FusedDepthwiseConv2dNative"],
        ),
        (
            "by the moments of the batch",
            |g| vec![norm(conv(g, NHWC), 6, NHWC, true)[0]],
            &["Conv2D", NORM],
        ),
        (
            "of images that are fetched",
            |g| {
                let x = conv(g, NHWC);
                vec![x, norm(x, 6, NHWC, false)[0]]
            },
            &["Conv2D", NORM],
        ),
    ]);
}

/// A convolution without padding, with a bias, of images behind zeros.
fn padded<'g>(g: &'g Graph, zeros: [[i32; 2]; 4]) -> [Output<'g>; 2] {
    let paddings = g.constant(Tensor::new(&[4, 2], zeros.as_flattened()).unwrap());
    let x = g
        .op("Pad")
        .input(f32(g, "x", &[2, 6, 6, 3]))
        .input(paddings)
        .output();
    let w = f32(g, "w", &[3, 3, 3, 6]);
    let y = x.conv2d(w, [2, 2], Padding::Valid, NHWC);
    [x, y.bias_add(f32(g, "c", &[6]), NHWC)]
}

#[test]
fn a_pad_before_a_fused_convolution_becomes_its_padding() {
    check(&[
        (
            "lines and columns",
            |g| vec![padded(g, [[0, 0], [0, 1], [2, 1], [0, 0]])[1]],
            &["_FusedConv2D"],
        ),
        (
            "images that are fetched",
            |g| padded(g, [[0, 0], [0, 1], [0, 1], [0, 0]]).to_vec(),
            &["Pad", "_FusedConv2D"],
        ),
        (
            "an image of zeros",
            |g| vec![padded(g, [[1, 0], [0, 1], [0, 1], [0, 0]])[1]],
            &["Pad", "_FusedConv2D"],
        ),
    ]);
}

const EX: &str = "_FusedBatchNormEx";

fn images(g: &Graph) -> Output<'_> {
    f32(g, "x", &[2, 5, 5, 6])
}

#[test]
fn a_relu_behind_a_batch_normalization_or_its_sum_is_computed_in_its_pass() {
    check(&[
        (
            "a Relu",
            |g| vec![norm(images(g), 6, NHWC, true)[0].relu()],
            &[EX],
        ),
        (
            "a Relu of a sum",
            |g| {
                let side = f32(g, "side", &[2, 5, 5, 6]);
                vec![(side + norm(images(g), 6, NHWC, true)[0]).relu()]
            },
            &[EX],
        ),
        (
            "another activation",
            |g| vec![norm(images(g), 6, NHWC, true)[0].tanh()],
            &[NORM, "Tanh"],
        ),
        (
            "a sum with a row",
            |g| vec![(norm(images(g), 6, NHWC, true)[0] + f32(g, "row", &[6])).relu()],
            &[NORM, "AddV2", "Relu"],
        ),
        (
            "a sum of three",
            |g| {
                let (x, y) = (images(g), norm(images(g), 6, NHWC, true)[0]);
                vec![g.op("AddN").inputs([x, y, x]).output().relu()]
            },
            &[NORM, "AddN", "Relu"],
        ),
    ]);
}

/// `MaxPoolGrad` over squares of `k` pixels that do not overlap.
fn pool_grad<'g>(x: Output<'g>, y: Output<'g>, dy: Output<'g>, k: i64) -> Output<'g> {
    let node = x.graph().op("MaxPoolGrad").input(x).input(y).input(dy);
    let node = node.attr("ksize", Attr::Ints(vec![1, k, k, 1]));
    let node = node.attr("strides", Attr::Ints(vec![1, k, k, 1]));
    node.attr("padding", "VALID").output()
}

/// Images of `size` squares of `k` pixels, the pooled ones, and their gradient.
fn pooled<'g>(g: &'g Graph, k: usize, dtype: DType) -> [Output<'g>; 3] {
    let of =
        |name, n: usize| g.placeholder(name, dtype, thalweg_tensor::Shape::known(&[1, n, n, 2]));
    let x = of("x", 2 * k);
    let y = x.max_pool([k, k], [k, k], Padding::Valid, NHWC);
    [x, y, of("dy", 2)]
}

const STORE: &str = "_MaxPoolStoreArgmax";
const STORED: &str = "_MaxPoolGradStoredArgmax";

#[test]
fn a_max_pooling_stores_the_argmax_that_its_gradient_needs() {
    check(&[
        (
            "its own gradient",
            |g| {
                let [x, y, dy] = pooled(g, 2, DType::F32);
                vec![y, pool_grad(x, y, dy, 2)]
            },
            &[STORE, STORED],
        ),
        (
            "two gradients",
            |g| {
                let [x, y, dy] = pooled(g, 2, DType::F32);
                vec![pool_grad(x, y, dy, 2), pool_grad(x, y, dy.tanh(), 2)]
            },
            &[STORE, STORED, "Tanh", STORED],
        ),
        (
            "windows whose places fill a byte",
            |g| {
                let [x, y, dy] = pooled(g, 16, DType::F32);
                vec![pool_grad(x, y, dy, 16)]
            },
            &[STORE, STORED],
        ),
        (
            "windows with more places",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                vec![pool_grad(x, y, dy, 17)]
            },
            &["MaxPool", "MaxPoolGrad"],
        ),
        (
            "integers",
            |g| {
                let [x, y, dy] = pooled(g, 2, DType::I32);
                vec![pool_grad(x, y, dy, 2)]
            },
            &["MaxPool", "MaxPoolGrad"],
        ),
        (
            "a gradient of other images",
            |g| {
                let [x, y, dy] = pooled(g, 2, DType::F32);
                vec![pool_grad(x.tanh(), y, dy, 2)]
            },
            &["MaxPool", "Tanh", "MaxPoolGrad"],
        ),
        (
            "a gradient on another device",
            |g| {
                let [x, y, dy] = pooled(g, 2, DType::F32);
                vec![pool_grad(x, y, dy, 2).named("far")]
            },
            &["MaxPool", "MaxPoolGrad"],
        ),
    ]);
}

#[test]
fn the_gradient_of_a_relu_before_a_pooling_is_taken_of_the_pooled_images() {
    check(&[
        (
            "a Relu of the images",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                let dx = pool_grad(x, y, dy, 17);
                vec![g.op("ReluGrad").input(dx).input(x).output()]
            },
            &["MaxPool", "ReluGrad", "MaxPoolGrad"],
        ),
        (
            "a Relu of something else",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                let dx = pool_grad(x, y, dy, 17);
                vec![g.op("ReluGrad").input(dx).input(x.sin()).output()]
            },
            &["MaxPool", "MaxPoolGrad", "Sin", "ReluGrad"],
        ),
    ]);
}

#[test]
fn the_sum_over_the_channels_of_a_pooling_gradient_is_that_of_its_own_gradient() {
    let cases: &[(&str, Build, &[&str])] = &[
        (
            "a sum alone",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                vec![g.op("BiasAddGrad").input(pool_grad(x, y, dy, 17)).output()]
            },
            // The pooling was only for its gradient, and stays as nothing asks to remove it.
            &["MaxPool", "BiasAddGrad"],
        ),
        (
            "a sum beside the gradient",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                let dx = pool_grad(x, y, dy, 17);
                vec![dx, g.op("BiasAddGrad").input(dx).output()]
            },
            &["MaxPool", "MaxPoolGrad", "BiasAddGrad"],
        ),
        (
            "channels in another place",
            |g| {
                let [x, y, dy] = pooled(g, 17, DType::F32);
                let sum = g.op("BiasAddGrad").input(pool_grad(x, y, dy, 17));
                vec![sum.attr("data_format", NCHW).output()]
            },
            &["MaxPool", "MaxPoolGrad", "BiasAddGrad"],
        ),
    ];
    check(cases);
}

/// A vector of so many elements.
fn vector<'g>(g: &'g Graph, name: &str, elements: usize) -> Output<'g> {
    f32(g, name, &[elements])
}

const LARGE: usize = 16 * 1024;

#[test]
fn elementwise_ops_that_follow_each_other_become_a_chain() {
    check(&[
        (
            "large values",
            |g| vec![(vector(g, "x", LARGE).tanh() + vector(g, "y", LARGE)).square()],
            &["_Fused"],
        ),
        (
            "a row that is added to each",
            |g| vec![(f32(g, "x", &[128, 128]).tanh() + f32(g, "row", &[128])).square()],
            &["_Fused"],
        ),
        (
            "values that stay in a cache",
            |g| vec![vector(g, "x", LARGE - 1).tanh().square()],
            &["Tanh", "Square"],
        ),
        (
            "a single op",
            |g| vec![vector(g, "x", LARGE).tanh()],
            &["Tanh"],
        ),
        (
            "a value in between that is fetched",
            |g| {
                let y = vector(g, "x", LARGE).tanh();
                vec![y, y.square()]
            },
            &["Tanh", "Square"],
        ),
        (
            "a value in between with two users in the chain",
            |g| {
                let y = vector(g, "x", LARGE).tanh();
                vec![y.square() * y]
            },
            &["_Fused"],
        ),
        (
            "a value in between that a sum uses too",
            |g| {
                let y = vector(g, "x", LARGE).tanh();
                let sum = g.op("Sum").input(y).input(g.constant([0i32])).output();
                vec![y.square(), sum]
            },
            &["Tanh", "Sum", "Square"],
        ),
        (
            "integers",
            |g| {
                let x = g.placeholder("x", DType::I32, [LARGE as i64]);
                vec![(x + x).square()]
            },
            &["AddV2", "Square"],
        ),
        (
            "an op on another device",
            |g| vec![vector(g, "x", LARGE).tanh().named("far").square()],
            &["Tanh", "Square"],
        ),
        (
            "more ops than a chain has room for",
            |g| vec![(0..65).fold(vector(g, "x", LARGE), |x, _| x.tanh())],
            &["Tanh", "_Fused"],
        ),
    ]);
}

#[test]
fn the_members_of_a_fused_node_are_listed_in_their_order() {
    let planner = Planner::cpus(&[1]).optimised();
    let g = graph();
    let y = product(&g)
        .named("y")
        .bias_add(f32(&g, "c", &[3]), NHWC)
        .named("z");
    let z = y.relu().named("w");
    let feeds = ["a", "b", "c"].map(|n| g.find(n).unwrap().output(0));
    let plan = planner.plan(&[z], &feeds).unwrap();
    let program = &plan.programs[0];
    let members = ["y", "z", "w"].map(|n| n.as_bytes().to_vec());
    assert_eq!(
        program.node(0).attrs.get(MEMBERS),
        Some(&Attr::Strs(members.to_vec()))
    );
}
