//! Cases of gradients: computations with inputs away from kinks. Elementwise ops, reductions, products.

use thalweg_graph::{Attr, Graph, NodeBuilder, Output};
use thalweg_ops::SourceOps;
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Tensor};

/// Builds outputs from fed inputs.
pub type Build = Box<dyn for<'g> Fn(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>>>;

/// A computation whose gradient is compared with finite differences.
pub struct GradientCase {
    pub name: String,
    /// The `f64` inputs that are differentiated.
    pub inputs: Vec<Tensor>,
    pub build: Build,
    /// Computes in `f32`, for ops that take no `f64`; differences are coarse then.
    pub single: bool,
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
) -> GradientCase {
    let attrs = attrs.to_vec();
    case(name, inputs, move |g, x| {
        let node = with(g.op(op), &attrs).inputs(x.iter().copied()).build();
        let floats = node
            .outputs()
            .into_iter()
            .filter(|o| o.dtype() == DType::F64);
        floats.collect()
    })
}

/// Any computation.
pub fn case(
    name: &str,
    inputs: Vec<Tensor>,
    build: impl for<'g> Fn(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>> + 'static,
) -> GradientCase {
    GradientCase {
        name: name.to_owned(),
        inputs,
        build: Box::new(build),
        single: false,
    }
}

/// A computation in `f32`, with inputs cast to it.
pub fn single(
    name: &str,
    inputs: Vec<Tensor>,
    build: impl for<'g> Fn(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>> + 'static,
) -> GradientCase {
    fn cast(x: Output<'_>, to: DType) -> Output<'_> {
        x.graph().op("Cast").input(x).attr("DstT", to).output()
    }
    GradientCase {
        single: true,
        ..case(name, inputs, move |g, x| {
            let x: Vec<Output<'_>> = x.iter().map(|&x| cast(x, DType::F32)).collect();
            let ys = build(g, &x).into_iter();
            ys.map(|y| cast(y, DType::F64)).collect()
        })
    }
}

pub fn with<'g>(node: NodeBuilder<'g>, attrs: &[(&'static str, Attr)]) -> NodeBuilder<'g> {
    attrs
        .iter()
        .fold(node, |n, (name, value)| n.attr(name, value.clone()))
}

pub fn ints<'g>(g: &'g Graph, values: &[i32]) -> Output<'g> {
    g.constant(values)
}

/// Elementwise ops and broadcasting.
pub fn elementwise() -> Vec<GradientCase> {
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
            vec![
                node.attr("shape", thalweg_tensor::Shape::unknown())
                    .output(),
            ]
        },
    ));
    all
}

/// Reductions and products.
pub fn reductions() -> Vec<GradientCase> {
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
