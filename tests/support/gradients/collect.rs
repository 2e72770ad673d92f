//! Cases of gradients: segments, TopK, stitches and partitions, Einsum and other products.

use thalweg_graph::Attr;
use thalweg_ops::SourceOps;
use thalweg_tensor::{DType, Tensor};

use super::case::{GradientCase, case, mixed, node};

/// Segments, TopK, stitches and partitions.
pub fn collected() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for op in [
        "SegmentSum",
        "SegmentMean",
        "SegmentProd",
        "SegmentMax",
        "SegmentMin",
    ] {
        all.push(case(op, vec![mixed(&[4, 2], 1)], move |g, x| {
            let node = g.op(op).input(x[0]).input(g.constant([0i32, 0, 2, 2]));
            vec![node.output()]
        }));
    }
    for op in [
        "UnsortedSegmentMax",
        "UnsortedSegmentMin",
        "UnsortedSegmentProd",
    ] {
        all.push(case(op, vec![mixed(&[5, 2], 1)], move |g, x| {
            let node = g.op(op).input(x[0]).input(g.constant([2i32, 0, -1, 2, 0]));
            let y = node.input(g.constant(3i32)).output();
            // Limits the value of segments without slices, which is too large for differences.
            let least = y.constant_like(-1e3);
            let most = y.constant_like(1e3);
            let y = g.op("Maximum").input(y).input(least).output();
            vec![g.op("Minimum").input(y).input(most).output()]
        }));
    }
    for (op, counted) in [
        ("SparseSegmentSum", false),
        ("SparseSegmentMean", false),
        ("SparseSegmentSqrtN", false),
        ("SparseSegmentSumWithNumSegments", true),
        ("SparseSegmentMeanWithNumSegments", true),
        ("SparseSegmentSqrtNWithNumSegments", true),
    ] {
        all.push(case(op, vec![mixed(&[4, 2], 1)], move |g, x| {
            let node = g.op(op).input(x[0]).input(g.constant([3i32, 0, 3, 1]));
            let node = node.input(g.constant([0i32, 0, 2, 2]));
            match counted {
                true => vec![node.input(g.constant(4i32)).output()],
                false => vec![node.output()],
            }
        }));
    }
    all.push(case("TopK", vec![mixed(&[2, 4], 1)], |g, x| {
        let node = g.op("TopK").input(x[0]).attr("k", Attr::Int(2));
        vec![node.build().output(0)]
    }));
    all.push(case("TopKV2", vec![mixed(&[2, 2, 3], 1)], |g, x| {
        let node = g.op("TopKV2").input(x[0]).input(g.constant(2i32));
        vec![node.build().output(0)]
    }));
    for reverse in [false, true] {
        let name = format!("NthElement, reverse {reverse}");
        all.push(case(&name, vec![mixed(&[2, 3], 1)], move |g, x| {
            let node = g.op("NthElement").input(x[0]).input(g.constant(1i32));
            vec![node.attr("reverse", reverse).output()]
        }));
    }
    for op in ["DynamicStitch", "ParallelDynamicStitch"] {
        let parts = vec![mixed(&[2, 2], 1), mixed(&[2, 2], 2)];
        all.push(case(op, parts, move |g, x| {
            let node = g.op(op).input(g.constant([3i32, 0]));
            let node = node.input(g.constant([1i32, 2]));
            vec![node.inputs(x.iter().copied()).attr("N", 2).output()]
        }));
    }
    all.extend(products());
    all.push(case("DynamicPartition", vec![mixed(&[4, 2], 1)], |g, x| {
        let which = g.constant(Tensor::vector(&[1i32, 0, 2, 1]));
        let node = g.op("DynamicPartition").input(x[0]).input(which);
        let node = node.attr("num_partitions", 3).build();
        vec![node.output(0), node.output(1)]
    }));
    all
}

/// Einsum and other products.
fn products() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for (equation, dims) in [
        ("ij,jk->ki", &[&[2, 3][..], &[3, 2][..]][..]),
        ("bij,bjk->bik", &[&[2, 2, 3], &[2, 3, 2]]),
        ("ij,k->i", &[&[2, 3], &[2]]),
        ("ijk->j", &[&[2, 3, 2]]),
        ("ii->i", &[&[3, 3]]),
        ("ii->", &[&[3, 3]]),
        ("ij->ji", &[&[2, 3]]),
        ("iij,jk->ik", &[&[2, 2, 3], &[3, 2]]),
        ("ij,jk->iki", &[&[2, 3], &[3, 2]]),
        ("...ij,...jk->...ik", &[&[2, 1, 2, 3], &[2, 3, 2]]),
        ("...ij,jk->...ik", &[&[2, 2, 3], &[3, 2]]),
        ("i...j,j...->...i", &[&[2, 3, 2], &[2, 1]]),
        ("i...j->...", &[&[2, 3, 2]]),
    ] {
        let inputs = dims.iter().zip(1..).map(|(d, seed)| mixed(d, seed));
        let attrs = [("equation", Attr::from(equation))];
        let name = format!("Einsum, {equation}");
        all.push(node(&name, "Einsum", inputs.collect(), &attrs));
    }
    let pair = || vec![mixed(&[2, 3], 1), mixed(&[2, 3], 2)];
    all.push(node("Cross", "Cross", pair(), &[]));
    let attrs = [
        ("Tout", Attr::Type(DType::F64)),
        ("adj_y", Attr::Bool(true)),
    ];
    let inputs = vec![mixed(&[2, 2, 3], 1), mixed(&[4, 3], 2)];
    all.push(node("BatchMatMulV3", "BatchMatMulV3", inputs, &attrs));
    all
}
