//! Cases of gradients: ops that move elements.

use thalweg_graph::Attr;
use thalweg_ops::{SourceOps, StateOps};

use super::case::{GradientCase, case, ints, mixed, node};

/// Ops that move elements.
pub fn moves() -> Vec<GradientCase> {
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
    for dims in [&[2][..], &[]] {
        let name = format!("TensorStridedSliceUpdate by {dims:?}");
        let values = vec![mixed(&[5], 1), mixed(dims, 2)];
        all.push(case(&name, values, |g, x| {
            let node = g.op("TensorStridedSliceUpdate").input(x[0]);
            let node = node.input(ints(g, &[0])).input(ints(g, &[4]));
            vec![node.input(ints(g, &[2])).input(x[1]).output()]
        }));
    }
    all.push(case("Pad", x(), |g, x| {
        let paddings = g.constant([[1i32, 0], [0, 2], [0, 0]]);
        vec![g.op("Pad").input(x[0]).input(paddings).output()]
    }));
    all.push(case("PadV2", vec![mixed(&[2], 1)], |g, x| {
        // The padding value has no gradient, as in TensorFlow.
        let node = g.op("PadV2").input(x[0]).input(g.constant([[1i32, 2]]));
        vec![node.input(g.constant(5.0f64)).output()]
    }));
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
    for axis in [0i64, -1] {
        let inputs = vec![mixed(&[2, 2], 1), mixed(&[2, 2], 2)];
        let name = format!("Pack along {axis}");
        all.push(node(&name, "Pack", inputs, &[("axis", Attr::Int(axis))]));
        let attrs = [("axis", Attr::Int(axis)), ("num", Attr::Int(2))];
        let name = format!("Unpack along {axis}");
        all.push(node(&name, "Unpack", vec![mixed(&[2, 3, 2], 1)], &attrs));
    }
    all.push(case(
        "UnsortedSegmentSum",
        vec![mixed(&[4, 2], 1)],
        |g, x| {
            let node = g.op("UnsortedSegmentSum").input(x[0]);
            let node = node.input(ints(g, &[2, 0, -1, 2]));
            vec![node.input(g.constant(3i32)).output()]
        },
    ));
    all
}
