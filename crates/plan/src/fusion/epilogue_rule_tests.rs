//! The rules of epilogues on graphs that they change, and on graphs that differ in one condition.

use thalweg_graph::{Graph, Output};
use thalweg_ops::{DataFormat, LinalgOps, MathOps, NnOps, Padding, SourceOps};
use thalweg_tensor::{DType, Tensor};

use super::rule_cases::{NCHW, NHWC, NORM, check, f32, norm, product};

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
