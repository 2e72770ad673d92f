//! Cases of gradients: dilations, and pools over regions with random borders.

use thalweg_graph::Attr;

use super::case::{GradientCase, mixed, node};

/// Dilations and fractional pools.
pub fn regions() -> Vec<GradientCase> {
    let ints = |values: [i64; 4]| Attr::Ints(values.to_vec());
    let mut all = Vec::new();
    for (stride, rate, padding) in [(1, 1, "SAME"), (2, 1, "VALID"), (1, 2, "SAME")] {
        let attrs = [
            ("strides", ints([1, stride, stride, 1])),
            ("rates", ints([1, rate, rate, 1])),
            ("padding", Attr::Str(padding.to_owned())),
        ];
        let inputs = vec![mixed(&[2, 4, 5, 2], 1), mixed(&[2, 3, 2], 2)];
        let name = format!("Dilation2D {padding}, stride {stride}, rate {rate}");
        all.push(node(&name, "Dilation2D", inputs, &attrs));
    }
    for op in ["FractionalMaxPool", "FractionalAvgPool"] {
        for (pseudo_random, overlapping) in [(false, false), (true, true)] {
            let attrs = [
                ("pooling_ratio", Attr::Floats(vec![1.0, 1.6, 1.3, 1.0])),
                ("pseudo_random", Attr::Bool(pseudo_random)),
                ("overlapping", Attr::Bool(overlapping)),
                ("deterministic", Attr::Bool(true)),
                ("seed", Attr::Int(7)),
                ("seed2", Attr::Int(9)),
            ];
            let name = format!("{op}, overlapping {overlapping}");
            all.push(node(&name, op, vec![mixed(&[2, 5, 4, 2], 3)], &attrs));
        }
    }
    all
}
