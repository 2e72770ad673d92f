//! Cases of gradients: reductions and products.

use thalweg_graph::Attr;

use super::case::{GradientCase, case, ints, mixed, node};

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
