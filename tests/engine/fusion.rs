//! Fusion: results of fused nodes are those of the single nodes.

use thalweg::graph::Attr;
use thalweg::ops::{DataFormat, LinalgOps, NnOps, Padding};
use thalweg::prelude::*;
use thalweg::session::Feed;

pub(super) const FORMATS: [DataFormat; 2] = [DataFormat::Nhwc, DataFormat::Nchw];

/// The ops that may follow a bias in a fused product or convolution.
pub(super) const ACTIVATIONS: [&str; 3] = ["Relu", "Relu6", "Tanh"];

/// Numbers between -1 and 1; neighbours differ.
pub(super) fn numbers(dims: &[usize], seed: usize) -> Tensor {
    let n: usize = dims.iter().product();
    let of = |i: usize| ((i + 1) as f64 * 0.618_033_988_75 + seed as f64 * 0.414_213_56).fract();
    let values: Vec<f64> = (0..n).map(|i| 2.0 * of(i) - 1.0).collect();
    Tensor::new(dims, &values).unwrap()
}

pub(super) fn one_by_one(g: &Graph) -> Session<'_> {
    Session::with_options(g, SessionOptions::new().optimise(false)).unwrap()
}

/// Runs `fetches` fused and unfused; the fused plan must have exactly these numbers of ops.
fn assert_fused_matches(
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
    let got: Vec<Vec<f64>> = fused.run(fetches, feeds).unwrap();
    let wanted: Vec<Vec<f64>> = plain.run(fetches, feeds).unwrap();
    for i in 0..fetches.len() {
        for (got, wanted) in got[i].iter().zip(&wanted[i]) {
            assert!((got - wanted).abs() <= 1e-9, "{what}, {i}: {got}, {wanted}");
        }
    }
}

/// A convolution with bias, Relu and pooling, whose loss is a sum of weighted outputs.
fn layer<'g>(
    g: &'g Graph,
    format: DataFormat,
    window: [usize; 2],
    strides: [usize; 2],
    padding: Padding,
) -> ([Output<'g>; 3], [Output<'g>; 3]) {
    let dims = match format {
        DataFormat::Nhwc => [3, 9, 7, 4],
        DataFormat::Nchw => [3, 4, 9, 7],
    };
    let x = g.placeholder("x", DType::F64, Shape::known(&dims));
    let w = g.placeholder("w", DType::F64, [3, 3, 4, 19]);
    let b = g.placeholder("b", DType::F64, [19]);
    let conv = x.conv2d(w, [1, 1], Padding::Same, format);
    let relu = conv.bias_add(b, format).relu();
    let pooled = relu.max_pool(window, strides, padding, format);
    ([x, w, b], [conv, relu, pooled])
}

fn feeds<'g>(inputs: &[Output<'g>]) -> Vec<Feed<'g>> {
    let value = |(i, x): (usize, &Output<'g>)| x.feed(numbers(&x.shape().to_dims().unwrap(), i));
    inputs.iter().enumerate().map(value).collect()
}

#[test]
fn a_fused_layer_trains_as_its_single_nodes() {
    let windows = [
        ([2, 2], [2, 2], Padding::Same),
        ([2, 2], [2, 2], Padding::Valid),
        ([3, 3], [2, 2], Padding::Same),
        ([3, 2], [1, 1], Padding::Valid),
        ([2, 2], [3, 3], Padding::Valid),
    ];
    for (format, (window, strides, padding)) in
        FORMATS.into_iter().flat_map(|f| windows.map(|w| (f, w)))
    {
        let what = format!("{format:?}, {window:?}, {strides:?}, {padding:?}");
        let g = Graph::new();
        let (inputs, [_, _, pooled]) = layer(&g, format, window, strides, padding);
        let weights = g.constant(numbers(&pooled.shape().to_dims().unwrap(), 9));
        let grads = gradients_with(&[pooled], &inputs, &[Some(weights)], &[]);
        let mut fetches: Vec<Output<'_>> = grads.into_iter().flatten().collect();
        fetches.push(pooled);
        let ops = [
            ("_FusedConv2D", 1),
            ("_MaxPoolStoreArgmax", 1),
            ("_MaxPoolGradStoredArgmax", 1),
            ("ReluGrad", 1),
            ("BiasAddGrad", 1),
            ("MaxPool", 0),
            ("BiasAdd", 0),
        ];
        assert_fused_matches(&what, &fetches, &feeds(&inputs), &ops);
    }
}

#[test]
fn fetched_values_inside_fused_groups_are_available() {
    let g = Graph::new();
    let format = DataFormat::Nhwc;
    let (inputs, [conv, relu, pooled]) = layer(&g, format, [2, 2], [2, 2], Padding::Same);
    let dx = gradients(&[pooled], &[inputs[0]])[0].unwrap();
    let ops = [
        ("_FusedConv2D", 0),
        ("Conv2D", 1),
        ("_MaxPoolStoreArgmax", 1),
    ];
    assert_fused_matches("conv", &[conv, dx], &feeds(&inputs), &ops);
    let ops = [("_FusedConv2D", 1), ("_MaxPoolStoreArgmax", 1)];
    assert_fused_matches("relu", &[relu, dx], &feeds(&inputs), &ops);
    let of_relu = gradients(&[pooled], &[relu])[0].unwrap();
    // The gradient of the pooling is fetched itself, so Relu's gradient comes after it.
    let ops = [("_MaxPoolGradStoredArgmax", 1), ("ReluGrad", 1)];
    assert_fused_matches("its gradient", &[of_relu, dx], &feeds(&inputs), &ops);
}

#[test]
fn bias_and_activation_fuse_into_convolutions_in_both_formats() {
    for format in FORMATS {
        let g = Graph::new();
        let dims = match format {
            DataFormat::Nhwc => [3, 8, 6, 4],
            DataFormat::Nchw => [3, 4, 8, 6],
        };
        let x = g.placeholder("x", DType::F64, Shape::known(&dims));
        let f = g.placeholder("f", DType::F64, [3, 3, 4, 19]);
        let b = g.placeholder("b", DType::F64, [19]);
        let biased = x
            .conv2d(f, [1, 1], Padding::Same, format)
            .bias_add(b, format);
        let values = feeds(&[x, f, b]);
        let ops = [("_FusedConv2D", 1), ("BiasAdd", 0)];
        let what = format!("{format:?}");
        assert_fused_matches(&what, &[biased], &values, &ops);
        for name in ACTIVATIONS {
            let last = g.op(name).input(biased).output();
            let ops = [("_FusedConv2D", 1), ("BiasAdd", 0), (name, 0)];
            assert_fused_matches(&format!("{what} {name}"), &[last], &values, &ops);
        }
        let relu = biased.relu();
        // Other users of the convolution get its value, and a pooling stays a node after it.
        let pooled = relu.max_pool([2, 2], [2, 2], Padding::Valid, format);
        let ops = [("_FusedConv2D", 1), ("MaxPool", 1), ("Relu", 0)];
        assert_fused_matches(&what, &[pooled, relu], &values, &ops);
        assert_fused_matches(&what, &[pooled], &values, &ops);
    }
}

#[test]
fn bias_and_batch_normalization_fuse_into_convolutions_in_groups() {
    let small = |x: &Output<'_>| {
        let numbers = numbers(&x.shape().to_dims().unwrap(), 1);
        let doubles = numbers.as_slice::<f64>().unwrap().iter();
        let narrow: Vec<f32> = doubles.map(|&n| n as f32).collect();
        Tensor::new(numbers.dims(), &narrow).unwrap()
    };
    for (format, with_bias) in FORMATS.into_iter().flat_map(|f| [(f, false), (f, true)]) {
        let g = Graph::new();
        let dims = match format {
            DataFormat::Nhwc => [2, 5, 4, 6],
            DataFormat::Nchw => [2, 6, 5, 4],
        };
        let x = g.placeholder("x", DType::F32, Shape::known(&dims));
        let w = g.placeholder("w", DType::F32, [3, 3, 2, 9]);
        let list = g.placeholder("list", DType::F32, [9]);
        let conv = x.conv2d(w, [1, 1], Padding::Same, format);
        let result = match with_bias {
            true => conv.bias_add(list, format).relu(),
            false => conv.batch_norm_with_moments(list, list, [list, list * list], 0.1, format),
        };
        let feeds = [x, w, list].map(|x| x.feed(small(&x)));
        let (fused, plain) = (Session::new(&g).unwrap(), one_by_one(&g));
        let text = fused.explain([result], &feeds).unwrap();
        assert!(text.contains(" = _FusedConv2D "), "{text}");
        let [got]: [Vec<f32>; 1] = fused.run([result], &feeds).unwrap();
        let [wanted]: [Vec<f32>; 1] = plain.run([result], &feeds).unwrap();
        for (got, wanted) in got.iter().zip(&wanted) {
            assert!((got - wanted).abs() <= 1e-5, "{format:?}: {got}, {wanted}");
        }
    }
}

#[test]
fn a_bias_on_either_side_fuses_into_a_matmul() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [5, 7]);
    let w = g.placeholder("w", DType::F64, [7, 33]);
    let b = g.placeholder("b", DType::F64, [33]);
    let c = g.placeholder("c", DType::F64, [5, 33]);
    let (left, right) = (x.matmul(w) + b, b + x.matmul(w));
    let inputs = [x, w, b, c];
    let values = feeds(&inputs);
    assert_fused_matches("left", &[left], &values[..3], &[("_FusedMatMul", 1)]);
    let relu = right.relu();
    assert_fused_matches(
        "right",
        &[relu],
        &values[..3],
        &[("_FusedMatMul", 1), ("Relu", 0)],
    );
    let both = [left, relu];
    // The two products are the same node, which both need.
    assert_fused_matches("both", &both, &values[..3], &[("MatMul", 1), ("Relu", 1)]);
    let whole = x.matmul(w) + c;
    let needed = [values[0].clone(), values[1].clone(), values[3].clone()];
    assert_fused_matches(
        "a matrix",
        &[whole],
        &needed,
        &[("MatMul", 1), ("_FusedMatMul", 0)],
    );
}

#[test]
fn a_node_with_control_dependents_does_not_fuse() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [5, 7]);
    let w = g.placeholder("w", DType::F64, [7, 3]);
    let b = g.placeholder("b", DType::F64, [3]);
    let product = x.matmul(w);
    let sum = product + b;
    let late = g.control_dependencies([product], || x + 1.0);
    let values = feeds(&[x, w, b]);
    assert_fused_matches(
        "waiting",
        &[sum, late],
        &values,
        &[("MatMul", 1), ("_FusedMatMul", 0)],
    );
}

#[test]
fn a_checked_step_names_the_node_of_a_non_finite_value() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2, 2]);
    let ones = g.constant(Tensor::new(&[2, 2], &[1.0f32; 4]).unwrap());
    let y = x.matmul(ones);
    let sum = (y + g.constant([1.0f32, 1.0])).relu();
    let session = Session::new(&g).unwrap();
    let values = || [x.feed(Tensor::new(&[2, 2], &[f32::MIN; 4]).unwrap())];
    // Relu turns it into a number again.
    let got = session.step(sum, values()).unwrap();
    assert_eq!(got.slice::<f32>(0).unwrap(), [0.0; 4]);
    let e = session
        .step_with(sum, values(), &RunOptions::new().checked())
        .unwrap_err();
    let SessionError::NotFinite { node, op, .. } = &e else {
        panic!("{e:?}");
    };
    assert_eq!((node.as_str(), op.as_str()), ("MatMul", "MatMul"));
}

/// A chain of elementwise ops over these dimensions, with a row of numbers and a single one.
fn chain<'g>(x: Output<'g>, row: Output<'g>, one: Output<'g>) -> Output<'g> {
    let a = (x * row + one).relu();
    let b = (a - x) * a;
    b.maximum(one).tanh() + row
}

#[test]
fn a_chain_of_elementwise_ops_fuses() {
    for (dims, row) in [
        (&[20_000][..], &[][..]),
        (&[16_384], &[1]),
        (&[163, 127], &[127]),
        (&[5, 41, 90], &[41, 90]),
        (&[50, 7, 70], &[1, 1, 70]),
        (&[16_385, 1], &[1]),
    ] {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F64, Shape::known(dims));
        let row = g.placeholder("row", DType::F64, Shape::known(row));
        let one = g.placeholder("one", DType::F64, []);
        let y = chain(x, row, one);
        let inputs = [x, row, one];
        let ops = [
            ("_Fused[Mul AddV2 Relu Sub Mul Maximum Tanh AddV2]", 1),
            ("Tanh", 0),
        ];
        assert_fused_matches(&format!("{dims:?}"), &[y], &feeds(&inputs), &ops);
        // A fetched value ends a chain, and so does a value that two chains use.
        let (low, high) = (y.sigmoid() * x, y.square() - x);
        let ops = [("_Fused[Sigmoid Mul]", 1), ("_Fused[Square Sub]", 1)];
        assert_fused_matches(
            &format!("{dims:?}, apart"),
            &[low, high],
            &feeds(&inputs),
            &ops,
        );
    }
}

#[test]
fn a_chain_of_several_dtypes_fuses() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [70, 300]);
    let y = (x * 3.0)
        .cast(DType::F32)
        .square()
        .greater(0.5f32)
        .cast(DType::F64)
        * x;
    let ops = [("_Fused[Mul Cast Square Greater Cast Mul]", 1)];
    assert_fused_matches("dtypes", &[y], &feeds(&[x]), &ops);
}

#[test]
fn a_chain_does_not_overwrite_values_used_later() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [30_000]);
    let made = x.exp();
    let y = (made + 1.0) * 2.0;
    let after = g.control_dependencies([y], || made - 3.0);
    assert_fused_matches(
        "after",
        &[y, after],
        &feeds(&[x]),
        &[("_Fused[AddV2 Mul]", 1)],
    );
    // The last op reads the value that the chain may overwrite, beside the chain's own result.
    let product = x.reshape([300, 100]).matmul(x.reshape([100, 300]));
    let last = (product.square() + product) * product;
    assert_fused_matches(
        "last",
        &[last],
        &feeds(&[x]),
        &[("_Fused[Square AddV2 Mul]", 1)],
    );
}

#[test]
fn a_sum_of_several_products_does_not_fuse_into_a_chain() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [30_000]);
    let term = |i: usize| {
        (x * (i as f64))
            .reshape([300, 100])
            .matmul(g.constant(Tensor::zeros(DType::F64, &[100, 100]).unwrap()))
            .reshape([30_000])
    };
    let sum = (1..5).map(term).reduce(|a, b| a + b).unwrap();
    let session = Session::new(&g).unwrap();
    let text = session.explain([sum], feeds(&[x])).unwrap();
    assert!(!text.contains("_Fused["), "{text}");
}

#[test]
fn constants_are_folded_before_the_step() {
    let g = Graph::new();
    let format = DataFormat::Nhwc;
    let x = g.constant(numbers(&[1, 4, 4, 3], 1));
    let pooled = x.relu().max_pool([2, 2], [2, 2], Padding::Same, format);
    let dx = gradients(&[pooled], &[x])[0].unwrap();
    let ops = [("MaxPool", 0), ("_MaxPoolStoreArgmax", 0), ("ReluGrad", 0)];
    assert_fused_matches("constants", &[pooled, dx], &[], &ops);
}

#[test]
fn chains_that_cannot_be_split_are_not_fused() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [2, 100, 100, 1]);
    let b = g.placeholder("b", DType::F64, [1]);
    // A bias needs channels, which a piece of a single one lacks.
    let y = x.tanh().bias_add(b, DataFormat::Nhwc).square();
    assert_fused_matches("one channel", &[y], &feeds(&[x, b]), &[("BiasAdd", 1)]);
    let x = g.placeholder("images", DType::F64, [2, 90, 90, 90]);
    let b = g.placeholder("biases", DType::F64, [90]);
    // The channels are not the last dimension, though of equal size.
    let y = x.tanh().bias_add(b, DataFormat::Nchw).square();
    assert_fused_matches("channels first", &[y], &feeds(&[x, b]), &[("BiasAdd", 1)]);
}

/// `MaxPoolGrad` of windows that are squares, two pixels apart.
fn pool_grad<'g>(x: Output<'g>, y: Output<'g>, dy: Output<'g>, k: i64) -> Output<'g> {
    let node = x.graph().op("MaxPoolGrad").input(x).input(y).input(dy);
    let node = node.attr("ksize", Attr::Ints(vec![1, k, k, 1]));
    let node = node.attr("strides", Attr::Ints(vec![1, 2, 2, 1]));
    node.attr("padding", "SAME").output()
}

#[test]
fn a_pool_gradient_of_other_windows_does_not_fuse() {
    for k in [1, 3] {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F64, [1, 4, 4, 1]);
        let relu = x.relu();
        let y = relu.max_pool([2, 2], [2, 2], Padding::Valid, DataFormat::Nhwc);
        let dy = g.placeholder("dy", DType::F64, [1, 2, 2, 1]);
        let dx = pool_grad(relu, y, dy, k);
        let back = g.op("ReluGrad").input(dx).input(relu).output();
        let ops = [("MaxPool", 1), ("MaxPoolGrad", 1), ("ReluGrad", 1)];
        assert_fused_matches(&format!("{k}"), &[y, back], &feeds(&[x, dy]), &ops);
    }
}

#[test]
fn a_gradient_with_a_late_shape_does_not_fuse() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [1, 4, 4, 1]);
    let y = x
        .relu()
        .max_pool([2, 2], [2, 2], Padding::Valid, DataFormat::Nhwc);
    let (flat, shape) = (
        g.placeholder("dy", DType::F64, [4]),
        g.placeholder("s", DType::I32, [4]),
    );
    let dy = g.op("Reshape").input(flat).input(shape).output();
    let dx = gradients_with(&[y], &[x], &[Some(dy)], &[])[0].unwrap();
    let mut given = feeds(&[x, flat]);
    given.push(shape.feed([1i32, 2, 2, 1]));
    assert_fused_matches(
        "late",
        &[y, dx],
        &given,
        &[("MaxPool", 1), ("MaxPoolGrad", 1)],
    );
}

#[test]
fn a_sum_leaves_no_unused_gradient() {
    let g = Graph::new();
    let format = DataFormat::Nhwc;
    let x = g.placeholder("x", DType::F64, [1, 4, 4, 3]);
    let b = g.placeholder("b", DType::F64, [3]);
    let y = x
        .bias_add(b, format)
        .max_pool([2, 2], [2, 2], Padding::Valid, format);
    let db = gradients(&[y], &[b])[0].unwrap();
    let ops = [
        ("MaxPoolGrad", 0),
        ("_MaxPoolGradStoredArgmax", 0),
        ("BiasAddGrad", 1),
    ];
    assert_fused_matches("sum", &[db], &feeds(&[x, b]), &ops);
}

#[test]
fn a_trace_lists_the_fused_nodes() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [30_000]);
    let y = (x + 1.0).named("sum").tanh().named("end");
    let session = Session::new(&g).unwrap();
    let (_, trace) = session
        .step_with(y, feeds(&[x]), &RunOptions::new().traced())
        .unwrap();
    let chain = trace.events.iter().find(|e| e.op == "_Fused").unwrap();
    assert_eq!(chain.members.len(), 2, "{chain:?}");
    assert_eq!(chain.members.last(), Some(&chain.node));
}
