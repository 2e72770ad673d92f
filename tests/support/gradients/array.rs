//! Cases of gradients: lookups, segment sums, stacks, and moves whose host inputs are computed in the step.

use thalweg_graph::{Graph, Output};
use thalweg_ops::{ArrayOps, SourceOps};

use super::case::{GradientCase, case, mixed};

/// `values` as an output that is known only when a step runs.
fn computed_in_step<'g>(g: &'g Graph, values: &[i32], x: Output<'g>) -> Output<'g> {
    let zero = x.rank_tensor() - x.rank_tensor();
    g.constant(values) + zero
}

/// Lookups, sums of segments, stacks and unstacks.
pub fn lookups() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for (name, dims, indices, ids_dims, axis, batch) in [
        ("vector", &[5][..], &[4, 0, 4][..], &[3][..], 0i64, 0i64),
        ("matrix of indices", &[3, 2], &[2, 0, 0, 2], &[2, 2], 0, 0),
        ("scalar index", &[3, 2], &[1], &[], 0, 0),
        ("last of three", &[2, 2, 3], &[2, 2], &[2], -1, 0),
        ("middle of three", &[2, 3, 2], &[0, 2, 0], &[3], 1, 0),
        ("batch", &[2, 3, 2], &[0, 2, 1, 1], &[2, 2], 1, 1),
        ("batch, far axis", &[2, 2, 3], &[2, 0, 1, 1], &[2, 2], 2, 1),
        ("two batches", &[2, 1, 3], &[2, 0], &[2, 1], -1, 2),
        ("one for each of a batch", &[2, 3], &[2, 0], &[2], 1, 1),
    ] {
        let (indices, ids_dims) = (indices.to_vec(), ids_dims.to_vec());
        all.push(case(
            &format!("GatherV2, {name}"),
            vec![mixed(dims, 1)],
            move |g, x| {
                let ids = thalweg_tensor::Tensor::new(&ids_dims, &indices).unwrap();
                let node = g.op("GatherV2").input(x[0]).input(g.constant(ids));
                let node = node.input(g.constant(axis)).attr("batch_dims", batch);
                vec![node.output()]
            },
        ));
    }
    all.push(case(
        "UnsortedSegmentSum",
        vec![mixed(&[4, 2], 1)],
        |_, x| vec![x[0].unsorted_segment_sum([1i32, -1, 0, 1], 3)],
    ));
    all.push(case(
        "UnsortedSegmentSum, matrix of ids",
        vec![mixed(&[2, 2, 3], 1)],
        |_, x| vec![x[0].unsorted_segment_sum([[1i32, 0], [1, -2]], 2)],
    ));
    for axis in [0i64, 1, -1] {
        all.push(case(
            &format!("Pack along {axis}"),
            vec![mixed(&[2, 3], 1), mixed(&[2, 3], 2)],
            move |g, x| vec![g.stack(x, axis)],
        ));
    }
    all.push(case(
        "Unpack, some outputs used",
        vec![mixed(&[2, 3], 1)],
        |_, x| {
            let parts = x[0].unstack(3, 1);
            vec![parts[0], parts[2]]
        },
    ));
    all.extend(late_moves());
    all
}

/// Moves by amounts that are known only when a step runs.
fn late_moves() -> Vec<GradientCase> {
    let x = || vec![mixed(&[2, 3], 1)];
    vec![
        case("Slice, late", x(), |g, x| {
            vec![x[0].slice(
                computed_in_step(g, &[0, 1], x[0]),
                computed_in_step(g, &[1, -1], x[0]),
            )]
        }),
        case("StridedSlice, late", x(), |g, x| {
            let strides = computed_in_step(g, &[1, -2], x[0]);
            vec![x[0].strided_slice(
                computed_in_step(g, &[1, 2], x[0]),
                computed_in_step(g, &[2, -9], x[0]),
                strides,
            )]
        }),
        case("Pad, late", x(), |g, x| {
            let paddings = g.constant([[1i32, 0], [2, 1]]) + computed_in_step(g, &[0], x[0]);
            vec![x[0].pad(paddings)]
        }),
        case("Tile, late", x(), |g, x| {
            vec![x[0].tile(computed_in_step(g, &[2, 3], x[0]))]
        }),
        case("Transpose, late", x(), |g, x| {
            vec![x[0].transpose(computed_in_step(g, &[1, 0], x[0]))]
        }),
        case(
            "ConcatV2, late",
            vec![mixed(&[2, 1], 1), mixed(&[2, 3], 2)],
            |g, x| {
                let axis = g.constant(1i32) + (x[0].rank_tensor() - x[1].rank_tensor());
                let node = g.op("ConcatV2").inputs(x.iter().copied());
                vec![node.input(axis).output()]
            },
        ),
        case("Fill, late", vec![mixed(&[], 1)], |g, x| {
            vec![g.fill(computed_in_step(g, &[2, 2], x[0]), x[0])]
        }),
        case("BroadcastTo, late", vec![mixed(&[3], 1)], |g, x| {
            vec![x[0].broadcast_to(computed_in_step(g, &[2, 3], x[0]))]
        }),
    ]
}
