//! Cases of gradients: elementwise functions, minimum and maximum, cumulative sums.

use thalweg_graph::Attr;
use thalweg_ops::SourceOps;
use thalweg_tensor::{Shape, Tensor};

use super::case::{GradientCase, case, ints, mixed, node, positive};

/// Numbers between `from` and `to`, no two the same.
fn between(from: f64, to: f64, seed: u64) -> Tensor {
    let unit = positive(&[2, 3], seed);
    let scaled: Vec<f64> = unit
        .as_slice::<f64>()
        .unwrap()
        .iter()
        .map(|v| from + (v - 0.2) / 1.5 * (to - from))
        .collect();
    Tensor::new(&[2, 3], &scaled).unwrap()
}

/// Functions of one and two elements, limits, and running sums.
pub fn functions() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for (op, from, to) in [
        ("Sin", -2.0, 2.0),
        ("Cos", -2.0, 2.0),
        ("Tan", -1.0, 1.0),
        ("Asin", -0.9, 0.9),
        ("Acos", -0.9, 0.9),
        ("Atan", -2.0, 2.0),
        ("Sinh", -2.0, 2.0),
        ("Cosh", -2.0, 2.0),
        ("Asinh", -2.0, 2.0),
        ("Acosh", 1.3, 3.0),
        ("Atanh", -0.8, 0.8),
        ("Expm1", -2.0, 2.0),
        ("Erf", -1.5, 1.5),
        ("Erfc", -1.5, 1.5),
        ("Erfinv", -0.8, 0.8),
        ("Ndtri", 0.1, 0.9),
        ("Lgamma", 0.5, 4.0),
        ("Digamma", 0.5, 4.0),
        ("BesselI0e", 0.5, 4.0),
        ("BesselI1e", -4.0, 4.0),
        ("BesselI0", -3.0, 3.0),
        ("BesselI1", -3.0, 3.0),
        ("BesselJ0", 0.5, 4.0),
        ("BesselJ1", 0.5, 4.0),
        ("BesselK0", 0.5, 4.0),
        ("BesselK0e", 0.5, 4.0),
        ("BesselK1", 0.5, 4.0),
        ("BesselK1e", 0.5, 4.0),
        ("BesselY0", 0.5, 4.0),
        ("BesselY1", 0.5, 4.0),
        ("Dawsn", -2.0, 2.0),
        ("Expint", 0.5, 3.0),
        ("FresnelCos", -1.5, 1.5),
        ("FresnelSin", -1.5, 1.5),
        ("Spence", 0.2, 3.0),
        ("Reciprocal", 0.5, 2.0),
        ("Inv", 0.5, 2.0),
        ("Softsign", -2.0, 2.0),
        ("Selu", -2.1, 2.0),
    ] {
        all.push(node(op, op, vec![between(from, to, 3)], &[]));
    }
    for op in ["ReciprocalGrad", "InvGrad", "SoftsignGrad", "SeluGrad"] {
        all.push(node(op, op, vec![mixed(&[5], 1), mixed(&[5], 2)], &[]));
    }
    for op in [
        "Atan2",
        "DivNoNan",
        "MulNoNan",
        "Xdivy",
        "TruncateMod",
        "Mod",
        "NextAfter",
    ] {
        for (a, b) in [(&[2, 3][..], &[2, 3][..]), (&[2, 1], &[3])] {
            let name = format!("{op} of {a:?} and {b:?}");
            all.push(node(&name, op, vec![mixed(a, 3), positive(b, 6)], &[]));
        }
    }
    for op in ["Xlogy", "Xlog1py"] {
        all.push(node(
            op,
            op,
            vec![mixed(&[2, 1], 3), positive(&[3], 4)],
            &[],
        ));
    }
    for (op, order) in [("Polygamma", 1.0f64), ("Zeta", 2.5)] {
        all.push(case(op, vec![positive(&[2, 3], 3)], move |g, x| {
            let order = g.constant([[order], [order + 1.0]]);
            vec![g.op(op).input(order).input(x[0]).output()]
        }));
    }
    for (name, dims) in [("Betainc", &[2, 3][..]), ("Betainc, a scalar x", &[])] {
        all.push(case(name, vec![positive(dims, 3)], move |g, x| {
            let (a, b) = (g.constant([[1.5f64, 0.7, 2.0]; 2]), g.constant(2.5f64));
            let half = x[0] * 0.4;
            vec![g.op("Betainc").input(a).input(b).input(half).output()]
        }));
    }
    for op in ["Igamma", "Igammac"] {
        all.push(case(op, vec![positive(&[2, 3], 3)], move |g, x| {
            let a = g.constant([[1.5f64], [3.0]]);
            vec![g.op(op).input(a).input(x[0]).output()]
        }));
        let name = format!("{op}, by a");
        all.push(case(&name, vec![positive(&[2, 1], 3)], move |g, a| {
            let x = g.constant([0.5f64, 2.5, 6.0]);
            vec![g.op(op).input(a[0]).input(x).output()]
        }));
    }
    let message = [("message", Attr::from("here"))];
    all.push(node(
        "CheckNumerics",
        "CheckNumerics",
        vec![mixed(&[3], 1)],
        &message,
    ));
    all.push(node(
        "ClipByValue, scalars",
        "ClipByValue",
        vec![
            mixed(&[2, 3], 1),
            Tensor::from(-0.7f64),
            Tensor::from(0.8f64),
        ],
        &[],
    ));
    all.push(node(
        "ClipByValue, each",
        "ClipByValue",
        vec![
            mixed(&[2, 3], 1),
            between(-1.0, -0.1, 2),
            between(0.1, 1.0, 4),
        ],
        &[],
    ));
    let shape = [("shape", Attr::Shape(Shape::known(&[3])))];
    all.push(node(
        "AccumulateNV2",
        "AccumulateNV2",
        vec![mixed(&[3], 1), mixed(&[3], 2)],
        &shape,
    ));
    all.push(case(
        "Select",
        vec![mixed(&[2, 3], 1), mixed(&[2, 3], 2)],
        |g, x| {
            let of = |which| {
                let node = g.op("Select").input(which).inputs(x.iter().copied());
                node.output()
            };
            vec![of(g.constant([true, false])), of(g.constant(false))]
        },
    ));
    for op in ["Cumsum", "Cumprod", "CumulativeLogsumexp"] {
        for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
            let name = format!("{op}, exclusive {exclusive}, reverse {reverse}");
            all.push(case(&name, vec![mixed(&[2, 3, 2], 3)], move |g, x| {
                let node = g.op(op).input(x[0]).input(g.constant(1i32));
                let y = node
                    .attr("exclusive", exclusive)
                    .attr("reverse", reverse)
                    .output();
                // The initial value of an exclusive one is too large for differences.
                match op == "CumulativeLogsumexp" && exclusive {
                    true => {
                        let least = y.constant_like(-1e3);
                        vec![g.op("Maximum").input(y).input(least).output()]
                    }
                    false => vec![y],
                }
            }));
        }
    }
    for (axes, keep) in [(&[1][..], false), (&[0, 2], true), (&[], false)] {
        let name = format!("EuclideanNorm over {axes:?}, keep_dims {keep}");
        let axes: Vec<i32> = axes.to_vec();
        all.push(case(&name, vec![mixed(&[2, 3, 2], 3)], move |g, x| {
            let node = g.op("EuclideanNorm").input(x[0]).input(ints(g, &axes));
            vec![node.attr("keep_dims", keep).output()]
        }));
    }
    all
}
