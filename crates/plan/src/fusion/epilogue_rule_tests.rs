//! The rules of epilogues on graphs that they change, and on graphs that differ in one condition.

use thalweg_graph::{Attr, Graph, Output};
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
            |g| {
                let sum = product(g).bias_add(f32(g, "c", &[3]), NHWC);
                vec![g.op("Softplus").input(sum).output()]
            },
            &["_FusedMatMul", "Softplus"],
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

/// A convolution with a bias, of 3 channels to 6.
fn biased(g: &Graph, format: DataFormat) -> Output<'_> {
    conv(g, format).bias_add(f32(g, "c", &[6]), format)
}

/// Images of as many numbers as [`biased`] has.
fn side(g: &Graph) -> Output<'_> {
    f32(g, "side", &[2, 6, 6, 6])
}

#[test]
fn a_residual_and_an_activation_behind_it_become_the_end_of_the_epilogue() {
    check(&[
        (
            "on the right, with a Relu",
            |g| vec![(biased(g, NHWC) + side(g)).relu()],
            &["_FusedConv2D"],
        ),
        (
            "on the left, behind a batch normalization",
            |g| vec![side(g) + norm(conv(g, NHWC), 6, NHWC, false)[0]],
            &["_FusedConv2D"],
        ),
        (
            "channels first",
            |g| vec![f32(g, "side", &[2, 6, 6, 6]) + biased(g, NCHW)],
            &["_FusedConv2D"],
        ),
        (
            "the sum of two convolutions is of the last one",
            |g| {
                let first = norm(conv(g, NHWC), 6, NHWC, false)[0];
                vec![(biased(g, NHWC) + first).relu()]
            },
            &["_FusedConv2D", "_FusedConv2D"],
        ),
        (
            "two residuals: the second sum is its own",
            |g| vec![biased(g, NHWC) + side(g) + f32(g, "more", &[2, 6, 6, 6])],
            &["_FusedConv2D", "AddV2"],
        ),
        (
            "behind an activation",
            |g| vec![biased(g, NHWC).relu() + side(g)],
            &["_FusedConv2D", "AddV2"],
        ),
        (
            "of other dimensions",
            |g| vec![biased(g, NHWC) + f32(g, "row", &[6, 6])],
            &["_FusedConv2D", "AddV2"],
        ),
        (
            "with itself",
            |g| {
                let y = biased(g, NHWC);
                vec![y + y]
            },
            &["_FusedConv2D", "AddV2"],
        ),
        (
            "with a convolution that is fetched",
            |g| {
                let y = biased(g, NHWC);
                vec![y, y + side(g)]
            },
            &["_FusedConv2D", "AddV2"],
        ),
        (
            "images that are larger than the result, kept over another op",
            |g| {
                let w = f32(g, "w", &[1, 1, 3, 2]);
                let y = f32(g, "x", &[2, 6, 6, 3]).conv2d(w, [1, 1], Padding::Same, NHWC);
                let y = y.bias_add(f32(g, "c", &[2]), NHWC);
                vec![y + f32(g, "side", &[2, 6, 6, 2]).tanh()]
            },
            &["_FusedConv2D", "Tanh", "AddV2"],
        ),
        (
            "behind a convolution of groups",
            |g| {
                let w = f32(g, "w", &[3, 3, 1, 6]);
                let y = f32(g, "x", &[2, 6, 6, 3]).conv2d(w, [1, 1], Padding::Same, NHWC);
                vec![y.bias_add(f32(g, "c", &[6]), NHWC) + side(g)]
            },
            &["_FusedConv2D", "AddV2"],
        ),
        (
            "behind a depthwise convolution",
            |g| vec![depthwise(g).bias_add(f32(g, "c", &[6]), NHWC) + side(g)],
            &["_FusedDepthwiseConv2dNative", "AddV2"],
        ),
        (
            "behind a product",
            |g| {
                let y = product(g).bias_add(f32(g, "c", &[3]), NHWC);
                vec![y + f32(g, "side", &[4, 3])]
            },
            &["_FusedMatMul", "AddV2"],
        ),
    ]);
}

/// `x (Relu6(x + moved) factor)`.
fn hard_swish(x: Output<'_>, moved: f32, factor: f32) -> Output<'_> {
    let g = x.graph();
    let gate = g.op("Relu6").input(x + g.constant(moved)).output();
    x * (gate * g.constant(factor))
}

#[test]
fn the_product_of_a_value_and_its_gate_becomes_the_activation() {
    check(&[
        (
            "Swish behind a convolution",
            |g| {
                let x = biased(g, NHWC);
                vec![x * x.sigmoid()]
            },
            &["_FusedConv2D"],
        ),
        (
            "Swish behind a depthwise convolution, the gate first",
            |g| {
                let x = norm(depthwise(g), 6, NHWC, false)[0];
                vec![x.sigmoid() * x]
            },
            &["_FusedDepthwiseConv2dNative"],
        ),
        (
            "Swish behind a product and its bias",
            |g| {
                let x = product(g).bias_add(f32(g, "c", &[3]), NHWC);
                vec![x * x.sigmoid()]
            },
            &["_FusedMatMul"],
        ),
        (
            "a gate that is fetched",
            |g| {
                let x = biased(g, NHWC);
                let gate = x.sigmoid();
                vec![x * gate, gate]
            },
            &["_FusedConv2D", "Sigmoid", "Mul"],
        ),
        (
            "a value that something else reads",
            |g| {
                let x = biased(g, NHWC);
                vec![x * x.sigmoid(), x.tanh()]
            },
            &["_FusedConv2D", "Sigmoid", "Mul", "Tanh"],
        ),
        (
            "a gate of another value",
            |g| vec![biased(g, NHWC) * side(g).sigmoid()],
            &["_FusedConv2D", "Sigmoid", "Mul"],
        ),
        (
            "Swish behind an activation",
            |g| {
                let x = biased(g, NHWC).relu();
                vec![x * x.sigmoid()]
            },
            &["_FusedConv2D", "Sigmoid", "Mul"],
        ),
        (
            "hard Swish",
            |g| vec![hard_swish(biased(g, NHWC), 3.0, 1.0 / 6.0)],
            &["_FusedConv2D"],
        ),
        (
            "another shift",
            |g| vec![hard_swish(biased(g, NHWC), 2.0, 1.0 / 6.0)],
            &["_FusedConv2D", "AddV2", "Relu6", "Mul", "Mul"],
        ),
        (
            "another factor",
            |g| vec![hard_swish(biased(g, NHWC), 3.0, 0.25)],
            &["_FusedConv2D", "AddV2", "Relu6", "Mul", "Mul"],
        ),
        (
            "a factor that waits for another node",
            |g| {
                let x = biased(g, NHWC);
                let gate = (x + g.constant(3.0f32)).relu6();
                let sixth = g.op("Const").attr("dtype", DType::F32);
                let sixth = sixth.attr("value", Attr::Tensor(Tensor::from(1.0f32 / 6.0)));
                let sixth = sixth.control(f32(g, "before", &[2]).tanh()).output();
                vec![x * (gate * sixth)]
            },
            &["_FusedConv2D", "AddV2", "Relu6", "Tanh", "Mul", "Mul"],
        ),
        (
            "a shift that gives the gate another rank",
            |g| {
                let x = biased(g, NHWC);
                let three = g.constant(Tensor::new(&[1; 5], &[3.0f32]).unwrap());
                vec![x * ((x + three).relu6() * g.constant(1.0f32 / 6.0))]
            },
            &["_FusedConv2D", "AddV2", "Relu6", "Mul", "Mul"],
        ),
        (
            "Sigmoid, Tanh and Elu",
            |g| {
                let of = |y: &str| {
                    let x = f32(g, y, &[2, 6, 6, 3]);
                    let y = x.conv2d(f32(g, "w", &[3, 3, 3, 6]), [1, 1], Padding::Same, NHWC);
                    y.bias_add(f32(g, "c", &[6]), NHWC)
                };
                vec![of("a").sigmoid(), of("b").tanh(), of("d").elu()]
            },
            &["_FusedConv2D", "_FusedConv2D", "_FusedConv2D"],
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
