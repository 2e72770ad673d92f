//! Cases of gradients: elementwise ops and broadcasting.

use thalweg_graph::Output;
use thalweg_ops::SourceOps;
use thalweg_tensor::{DType, Tensor};

use super::case::{GradientCase, case, mixed, node, positive};

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
