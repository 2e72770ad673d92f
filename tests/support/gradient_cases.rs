//! The table of gradients: how a value is computed from inputs, at points away from kinks.

use thalweg_graph::shape::elements;
use thalweg_graph::{Attr, DType, Graph, NodeBuilder, Output, Tensor};
use thalweg_ops::{SourceOps, StateOps};

/// Computes outputs from inputs that are fed.
pub type Build = Box<dyn for<'g> Fn(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>>>;

/// A computation whose gradient is compared with finite differences.
pub struct Case {
    pub name: String,
    /// The `f64` inputs that are differentiated.
    pub inputs: Vec<Tensor>,
    pub build: Build,
}

/// Numbers between 0.2 and 1.7 in size, of both signs, no two the same.
pub fn mixed(dims: &[usize], seed: u64) -> Tensor {
    let values = sizes(dims, seed).enumerate();
    let signed = values.map(|(i, v)| {
        if (i as u64 + seed).is_multiple_of(3) {
            -v
        } else {
            v
        }
    });
    Tensor::new(dims, &signed.collect::<Vec<f64>>()).unwrap()
}

/// Numbers between 0.2 and 1.7, no two the same.
pub fn positive(dims: &[usize], seed: u64) -> Tensor {
    Tensor::new(dims, &sizes(dims, seed).collect::<Vec<f64>>()).unwrap()
}

fn sizes(dims: &[usize], seed: u64) -> impl Iterator<Item = f64> {
    // Multiples of the golden ratio are spread evenly, and none comes twice.
    (0..elements(dims)).map(move |i| {
        let turn = (i as f64 + 1.0 + 17.0 * seed as f64) * 0.618_033_988_749_895;
        0.2 + 1.5 * turn.fract()
    })
}

/// A case of one node whose inputs are the differentiated ones.
pub fn node(
    name: &str,
    op: &'static str,
    inputs: Vec<Tensor>,
    attrs: &[(&'static str, Attr)],
) -> Case {
    let attrs = attrs.to_vec();
    case(name, inputs, move |g, x| {
        let node = with(g.op(op), &attrs).inputs(x.iter().copied()).build();
        let floats = node
            .outputs()
            .into_iter()
            .filter(|o| o.dtype() == DType::F64);
        // A gradient that only the gradient rule itself uses is no result to differentiate.
        floats
            .take(if op.starts_with("SoftmaxCross") {
                1
            } else {
                usize::MAX
            })
            .collect()
    })
}

/// Any computation.
pub fn case(
    name: &str,
    inputs: Vec<Tensor>,
    build: impl for<'g> Fn(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>> + 'static,
) -> Case {
    Case {
        name: name.to_owned(),
        inputs,
        build: Box::new(build),
    }
}

pub fn with<'g>(node: NodeBuilder<'g>, attrs: &[(&'static str, Attr)]) -> NodeBuilder<'g> {
    attrs
        .iter()
        .fold(node, |n, (name, value)| n.attr(name, value.clone()))
}

fn ints<'g>(g: &'g Graph, values: &[i32]) -> Output<'g> {
    g.constant(values)
}

/// Elementwise ops and broadcasting.
pub fn elementwise() -> Vec<Case> {
    let mut all = Vec::new();
    for op in [
        "Neg",
        "Square",
        "Tanh",
        "Sigmoid",
        "Softplus",
        "Exp",
        "Abs",
        "Identity",
        "Relu",
        "Relu6",
        "Elu",
        "LeakyRelu",
        "L2Loss",
    ] {
        all.push(node(op, op, vec![mixed(&[2, 3], 1)], &[]));
    }
    for op in ["Sqrt", "Rsqrt", "Log", "Log1p"] {
        all.push(node(op, op, vec![positive(&[2, 3], 2)], &[]));
    }
    for op in [
        "AddV2",
        "Add",
        "Sub",
        "Mul",
        "RealDiv",
        "Div",
        "SquaredDifference",
        "Maximum",
        "Minimum",
    ] {
        for (a, b) in [
            (&[2, 3][..], &[2, 3][..]),
            (&[2, 3], &[3]),
            (&[2, 1], &[1, 3]),
            (&[], &[2, 2]),
            (&[2, 1, 2], &[3, 1]),
        ] {
            let name = format!("{op} of {a:?} and {b:?}");
            all.push(node(&name, op, vec![mixed(a, 3), mixed(b, 4)], &[]));
        }
    }
    for (a, b) in [(&[2, 3][..], &[2, 3][..]), (&[3], &[2, 1])] {
        let name = format!("Pow of {a:?} and {b:?}");
        all.push(node(&name, "Pow", vec![positive(a, 5), mixed(b, 6)], &[]));
        let name = format!("FloorMod of {a:?} and {b:?}");
        all.push(node(
            &name,
            "FloorMod",
            vec![positive(a, 5), positive(b, 6)],
            &[],
        ));
    }
    for op in ["TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad"] {
        all.push(node(op, op, vec![positive(&[4], 7), mixed(&[4], 8)], &[]));
    }
    for op in [
        "ReluGrad",
        "Relu6Grad",
        "LeakyReluGrad",
        "SoftplusGrad",
        "EluGrad",
    ] {
        all.push(node(op, op, vec![mixed(&[4], 9), mixed(&[4], 10)], &[]));
    }
    all.push(node(
        "AddN",
        "AddN",
        vec![mixed(&[3], 1), mixed(&[3], 2), mixed(&[3], 3)],
        &[],
    ));
    all.push(case(
        "SelectV2, broadcast",
        vec![mixed(&[2, 1], 1), mixed(&[3], 2)],
        |g, x| {
            let which = g.constant([true, false, true]);
            vec![
                g.op("SelectV2")
                    .input(which)
                    .inputs(x.iter().copied())
                    .output(),
            ]
        },
    ));
    all.push(case(
        "Cast and back",
        vec![Tensor::from([0.5f64, -1.25, 2.0])],
        |g, x| {
            let cast = |x: Output<'_>, d: DType| {
                g.op("Cast")
                    .input(g.output(x.id()))
                    .attr("DstT", d)
                    .output()
                    .id()
            };
            let there = g.output(cast(x[0], DType::F32));
            vec![g.output(cast(there, DType::F64))]
        },
    ));
    all.push(case(
        "PlaceholderWithDefault",
        vec![mixed(&[2], 1)],
        |g, x| {
            let node = g.op("PlaceholderWithDefault").input(x[0]);
            vec![node.attr("shape", thalweg_graph::Shape::unknown()).output()]
        },
    ));
    all
}

/// Reductions and products.
pub fn reductions() -> Vec<Case> {
    let mut all = Vec::new();
    for op in ["Sum", "Mean", "Prod", "Max", "Min"] {
        for (axes, keep) in [
            (&[0][..], false),
            (&[-1], true),
            (&[0, 2], false),
            (&[], false),
            (&[0, 1, 2], false),
        ] {
            let name = format!("{op} over {axes:?}, keep_dims {keep}");
            let axes: Vec<i32> = axes.to_vec();
            all.push(case(&name, vec![mixed(&[2, 3, 2], 3)], move |g, x| {
                let node = g.op(op).input(x[0]).input(ints(g, &axes));
                vec![node.attr("keep_dims", keep).output()]
            }));
        }
    }
    for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
        let a = if ta { [3, 2] } else { [2, 3] };
        let b = if tb { [4, 3] } else { [3, 4] };
        let attrs = [
            ("transpose_a", Attr::Bool(ta)),
            ("transpose_b", Attr::Bool(tb)),
        ];
        let name = format!("MatMul, transposed {ta} {tb}");
        all.push(node(
            &name,
            "MatMul",
            vec![mixed(&a, 1), mixed(&b, 2)],
            &attrs,
        ));
        let attrs = [("adj_x", Attr::Bool(ta)), ("adj_y", Attr::Bool(tb))];
        let batch = |dims: &[usize], n: &[usize]| [n, dims].concat();
        for (op, na, nb) in [
            ("BatchMatMulV2", &[2, 1][..], &[3][..]),
            ("BatchMatMulV2", &[2], &[2]),
            ("BatchMatMul", &[2], &[2]),
        ] {
            let name = format!("{op} {na:?} {nb:?}, adjoint {ta} {tb}");
            let inputs = vec![mixed(&batch(&a, na), 1), mixed(&batch(&b, nb), 2)];
            all.push(node(&name, op, inputs, &attrs));
        }
    }
    all
}

/// Ops that move elements.
pub fn moves() -> Vec<Case> {
    let x = || vec![mixed(&[2, 3, 2], 1)];
    let host = |name: &'static str, op: &'static str, values: &'static [i32]| {
        case(name, x(), move |g, x| {
            vec![g.op(op).input(x[0]).input(ints(g, values)).output()]
        })
    };
    let mut all = vec![
        host("Reshape", "Reshape", &[3, -1]),
        host("Transpose", "Transpose", &[2, 0, 1]),
        host("Tile", "Tile", &[2, 1, 3]),
        host("BroadcastTo", "BroadcastTo", &[2, 2, 3, 2]),
    ];
    all.push(case("ExpandDims", x(), |g, x| {
        vec![
            g.op("ExpandDims")
                .input(x[0])
                .input(g.constant(1i32))
                .output(),
        ]
    }));
    all.push(node(
        "Squeeze",
        "Squeeze",
        vec![mixed(&[2, 1, 3, 1], 1)],
        &[("squeeze_dims", Attr::Ints(vec![1]))],
    ));
    all.push(case(
        "ConcatV2",
        vec![mixed(&[2, 1], 1), mixed(&[2, 3], 2)],
        |g, x| {
            let node = g.op("ConcatV2").inputs(x.iter().copied());
            vec![node.input(g.constant(-1i32)).output()]
        },
    ));
    for used in [&[0usize, 1, 2][..], &[1]] {
        let used = used.to_vec();
        all.push(case(
            &format!("Split, outputs {used:?} used"),
            x(),
            move |g, x| {
                let node = g
                    .op("Split")
                    .input(g.constant(1i32))
                    .input(x[0])
                    .attr("num_split", 3i64);
                let split = node.build();
                used.iter().map(|&i| split.output(i as u32)).collect()
            },
        ));
    }
    all.push(case("Slice", x(), |g, x| {
        let node = g.op("Slice").input(x[0]).input(ints(g, &[0, 1, 0]));
        vec![node.input(ints(g, &[2, 2, -1])).output()]
    }));
    for (masks, begin, end, strides) in [
        ([0i64, 0, 0], [0, 2, 1], [2, 0, 2], [1, -1, 1]),
        ([1, 1, 4], [1, 0, 0], [0, 3, 1], [1, 2, 1]),
    ] {
        all.push(case(
            &format!("StridedSlice {masks:?} {strides:?}"),
            x(),
            move |g, x| {
                let node = g.op("StridedSlice").input(x[0]).input(ints(g, &begin));
                let node = node.input(ints(g, &end)).input(ints(g, &strides));
                let node = node.attr("begin_mask", masks[0]).attr("end_mask", masks[1]);
                vec![node.attr("shrink_axis_mask", masks[2]).output()]
            },
        ));
    }
    all.push(case("StridedSliceGrad", vec![mixed(&[2], 1)], |g, x| {
        let node = g
            .op("StridedSliceGrad")
            .input(ints(g, &[5]))
            .input(ints(g, &[0]));
        vec![
            node.input(ints(g, &[4]))
                .input(ints(g, &[2]))
                .input(x[0])
                .output(),
        ]
    }));
    all.push(case("Pad", x(), |g, x| {
        let paddings = g.constant([[1i32, 0], [0, 2], [0, 0]]);
        vec![g.op("Pad").input(x[0]).input(paddings).output()]
    }));
    all.push(case(
        "PadV2",
        vec![mixed(&[2], 1), mixed(&[], 2)],
        |g, x| {
            let paddings = g.constant([[1i32, 2]]);
            vec![
                g.op("PadV2")
                    .input(x[0])
                    .input(paddings)
                    .input(x[1])
                    .output(),
            ]
        },
    ));
    for axis in [0i32, 1] {
        all.push(case(
            &format!("GatherV2 along {axis}"),
            vec![mixed(&[3, 2], 1)],
            move |g, x| {
                let node = g.op("GatherV2").input(x[0]).input(ints(g, &[1, 1, 0]));
                vec![node.input(g.constant(axis)).output()]
            },
        ));
    }
    all.push(case("Fill", vec![mixed(&[], 1)], |g, x| {
        vec![g.op("Fill").input(ints(g, &[2, 3])).input(x[0]).output()]
    }));
    all.push(case(
        "ReadVariableOp and its uses",
        vec![mixed(&[2], 1)],
        |g, x| {
            let v = g.variable("v", [2.0f64, -3.0]);
            vec![x[0] * v * v, v.read() * x[0]]
        },
    ));
    all
}
