//! The values of collectives, and their gradients.

use std::collections::HashMap;

use thalweg_graph::{Graph, Output, gradients};
use thalweg_ops::{
    ALL_RANKS, ArrayOps, CollectiveOps, NewGraph, RankOps, ReduceOp, ReduceOps, Reduction,
    SourceOps,
};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::{DType, Tensor};

use crate::modes;
use crate::world::World;

#[test]
fn every_reduction_gives_every_rank_the_same_value() {
    type Fold = fn(f32, f32) -> f32;
    let ops: [(ReduceOp, Fold); 5] = [
        (ReduceOp::Sum, |a, b| a + b),
        (ReduceOp::Average, |a, b| a + b),
        (ReduceOp::Min, f32::min),
        (ReduceOp::Max, f32::max),
        (ReduceOp::Product, |a, b| a * b),
    ];
    for (n, options) in (1..=4).flat_map(|n| modes().map(|o| (n, o))) {
        let world = World::new(n);
        let found = world.run(&options, |rank, options| {
            let g = Graph::new();
            let x = g.placeholder("x", DType::F32, [2]);
            let of = |(op, _): &(ReduceOp, Fold)| {
                let how = Reduction::of(*op).scaled(2.0, 0.25);
                [x.all_reduce(*op), x.all_reduce(how)]
            };
            let all: Vec<_> = ops.iter().flat_map(of).collect();
            let session = Session::with_options(&g, options).unwrap();
            let feed = [x.feed([rank as f32 + 1.0, -2.0])];
            session.run::<Vec<Vec<f32>>>(&all[..], feed).unwrap()
        });
        for ((i, (op, fold)), own) in ops
            .iter()
            .enumerate()
            .flat_map(|o| found.iter().map(move |f| (o, f)))
        {
            let of = |scale: f32| {
                let all = (0..n).map(|r| [(r as f32 + 1.0) * scale, -2.0 * scale]);
                let value = all.reduce(|a, b| [fold(a[0], b[0]), fold(a[1], b[1])]);
                let mean = if *op == ReduceOp::Average {
                    n as f32
                } else {
                    1.0
                };
                value.unwrap().map(|x| x / mean)
            };
            assert_eq!(own[2 * i], of(1.0), "{op} of {n}");
            assert_eq!(own[2 * i + 1], of(2.0).map(|x| x / 4.0), "{op} of {n}");
        }
        assert_eq!(world.overlapping(), 0);
    }
}

#[test]
fn rows_are_gathered_scattered_and_exchanged_in_the_order_of_ranks() {
    for (n, options) in (1..=4).flat_map(|n| modes().map(|o| (n, o))) {
        let world = World::new(n);
        let found = world.run(&options, |rank, options| {
            let g = Graph::new();
            let x = g.placeholder("x", DType::I32, [-1, 2]);
            let same = g.constant([[0i32, 1], [2, 3], [4, 5], [6, 7], [8, 9]]);
            let splits = g.placeholder("splits", DType::I32, [n as i64]);
            let all = x.all_gather(ALL_RANKS);
            let own = same.reduce_scatter(ReduceOp::Sum);
            let (given, from) = x.all_to_all(splits, ALL_RANKS);
            let first = x.slice([0, 0], [1, 2]).broadcast_from(n - 1, ALL_RANKS);
            let numbers = g.op("Pack").inputs([g.rank(ALL_RANKS), g.ranks(ALL_RANKS)]);
            let numbers = numbers.attr("N", 2).output();
            let here = g.barrier(ALL_RANKS);
            assert_eq!(g.errors(), []);
            let session = Session::with_options(&g, options).unwrap();
            // Rank r has r + n rows; of these the last rank is given one for each rank, and all others one.
            let rows: Vec<i32> = (0..2 * (rank + n) as i32)
                .map(|i| i + 100 * rank as i32)
                .collect();
            let rows = Tensor::from(rows).reshaped(&[rank + n, 2]).unwrap();
            let mut shares = vec![1i32; n];
            shares[n - 1] += rank as i32;
            let feeds = [x.feed(rows), splits.feed(shares)];
            session.step(here, []).unwrap();
            session
                .run::<[Vec<i32>; 6]>([all, own, given, from, first, numbers], feeds)
                .unwrap()
        });
        let rows = |rank: usize, from: usize, to: usize| -> Vec<i32> {
            (2 * from..2 * to)
                .map(|i| (i + 100 * rank) as i32)
                .collect()
        };
        let mut scattered = 0;
        for (rank, [all, own, given, from, first, numbers]) in found.iter().enumerate() {
            let expected: Vec<i32> = (0..n).flat_map(|r| rows(r, 0, r + n)).collect();
            assert_eq!(all, &expected);
            let share = 5 / n + usize::from(rank < 5 % n);
            let part: Vec<i32> = (2 * scattered..2 * (scattered + share))
                .map(|i| (i * n) as i32)
                .collect();
            scattered += share;
            assert_eq!(own, &part);
            let last = rank == n - 1;
            let end = |r: usize| if last { r + n } else { rank + 1 };
            let expected: Vec<i32> = (0..n).flat_map(|r| rows(r, rank, end(r))).collect();
            assert_eq!(given, &expected);
            let expected: Vec<i32> = (0..n).map(|r| (end(r) - rank) as i32).collect();
            assert_eq!(from, &expected);
            assert_eq!(first, &rows(n - 1, 0, 1));
            assert_eq!(numbers, &[rank as i32, n as i32]);
        }
    }
}

/// As in Horovod: the gradient of a reduction is the same reduction, rows go back to where they came from, and a value
/// that a rank only received has the mean of all gradients, on the rank that sent it.
#[test]
fn gradients_go_back_to_where_values_came_from() {
    for n in 1..=4 {
        let found = World::new(n).run(&modes()[0], |rank, options| {
            let g = Graph::new();
            let x = g.placeholder("x", DType::F32, [-1, 1]);
            let z = g.placeholder("z", DType::F32, [n as i64, 1]);
            let weight = g.placeholder("weight", DType::F32, []);
            let back = |y, x| back(y, x, weight);
            let none = g.constant(Vec::<i32>::new());
            let one = x.slice([0, 0], [1, 1]);
            let all = [
                back(one.all_reduce(ReduceOp::Sum), x),
                back(x.all_gather(ALL_RANKS), x),
                back(one.broadcast_from(n - 1, ALL_RANKS), x),
                back(z.reduce_scatter(ReduceOp::Sum), z),
                back(z.all_to_all(none, ALL_RANKS).0, z),
            ];
            assert_eq!(g.errors(), []);
            let session = Session::with_options(&g, options).unwrap();
            let column = |rows: Vec<f32>| {
                let count = rows.len();
                Tensor::from(rows).reshaped(&[count, 1]).unwrap()
            };
            let feeds = [
                x.feed(column((0..rank + 1).map(|i| given(rank, i)).collect())),
                z.feed(column((0..n).map(|i| given(rank, i)).collect())),
                weight.feed(rank as f32 + 1.0),
            ];
            session.run::<[Vec<f32>; 5]>(all, feeds).unwrap()
        });
        let weight = |rank: usize| rank as f32 + 1.0;
        let weights: f32 = (0..n).map(weight).sum();
        for (rank, [sum, all, first, scattered, exchanged]) in found.iter().enumerate() {
            let in_first = |x: f32| {
                let rows = (0..rank + 1).map(|i| if i == 0 { x } else { 0.0 });
                rows.collect::<Vec<f32>>()
            };
            let total: f32 = (0..n).map(|r| given(r, 0)).sum();
            close(sum, &in_first(total * weights));
            let rows = (0..rank + 1).map(|i| given(rank, i) * weights / n as f32);
            close(all, &rows.collect::<Vec<f32>>());
            let root = if rank == n - 1 { given(rank, 0) } else { 0.0 };
            close(first, &in_first(root * weights / n as f32));
            let row = |r: usize| (0..n).map(|s| given(s, r)).sum::<f32>() * weight(r) * n as f32;
            close(scattered, &(0..n).map(row).collect::<Vec<f32>>());
            let row = |r: usize| given(rank, r) * weight(r);
            close(exchanged, &(0..n).map(row).collect::<Vec<f32>>());
        }
    }
}

/// The gradient where that of `y` is `y` times a weight.
fn back<'g>(y: Output<'g>, x: Output<'g>, weight: Output<'g>) -> Output<'g> {
    let loss = (y * y).reduce_sum(&[0, 1], false) * 0.5 * weight;
    gradients(&[loss], &[x])[0].unwrap()
}

/// A row of a rank's value.
fn given(rank: usize, row: usize) -> f32 {
    (10 * rank + row + 1) as f32
}

#[track_caller]
fn close(found: &[f32], expected: &[f32]) {
    let same = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs();
    let equal = found.len() == expected.len() && found.iter().zip(expected).all(same);
    assert!(equal, "{found:?} for {expected:?}");
}

#[test]
fn collectives_of_groups_match_tensorflow() {
    for n in 1..=3 {
        let found = World::new(n).run(&modes()[1], |rank, options| {
            let g = Graph::new();
            let x = g.placeholder("x", DType::F32, [n as i64, 1]);
            let key = |k: i32| g.constant(k);
            let of = |op: &str, instance: i32| {
                let node = g.op(op).input(x).input(key(n as i32));
                node.input(key(7)).input(key(instance))
            };
            let merged = |op, merge: &str, last: &str| {
                of(op, 1).attr("merge_op", merge).attr("final_op", last)
            };
            let sent = match rank {
                0 => of("CollectiveBcastSendV2", 2).output(),
                _ => {
                    let node = g.op("CollectiveBcastRecvV2").input(key(n as i32));
                    let node = node.input(key(7)).input(key(2));
                    let node = node.input(g.constant([n as i32, 1]));
                    node.attr("T", DType::F32).output()
                }
            };
            let all = [
                merged("CollectiveReduceV2", "Add", "Id").output(),
                merged("CollectiveReduceV2", "Add", "Div").output(),
                merged("CollectiveReduceV2", "Max", "Div").output(),
                merged("CollectiveReduceScatterV2", "Add", "Id").output(),
                of("CollectiveGatherV2", 1).output(),
                of("CollectiveAllToAllV2", 1).output(),
                sent,
            ];
            assert_eq!(g.errors(), []);
            let session = Session::with_options(&g, options).unwrap();
            let rows: Vec<f32> = (0..n).map(|i| given(rank, i)).collect();
            let feed = [x.feed(Tensor::from(rows).reshaped(&[n, 1]).unwrap())];
            session.run::<[Vec<f32>; 7]>(all, feed).unwrap()
        });
        let sums: Vec<f32> = (0..n).map(|i| (0..n).map(|r| given(r, i)).sum()).collect();
        let scaled = |all: &[f32]| all.iter().map(|x| x / n as f32).collect::<Vec<_>>();
        let rows = |r: usize| (0..n).map(move |i| given(r, i));
        for (rank, own) in found.iter().enumerate() {
            close(&own[0], &sums);
            close(&own[1], &scaled(&sums));
            close(&own[2], &scaled(&rows(n - 1).collect::<Vec<_>>()));
            close(&own[3], &[sums[rank]]);
            close(&own[4], &(0..n).flat_map(rows).collect::<Vec<_>>());
            close(&own[5], &(0..n).map(|r| given(r, rank)).collect::<Vec<_>>());
            close(&own[6], &rows(0).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_set_has_ranks_of_its_own() {
    let world = World::with_sets(3, HashMap::from([(1, vec![0, 2])]));
    let found = world.run(&modes()[0], |rank, options| {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, []);
        let sum = x.all_reduce_in(ReduceOp::Sum, 1);
        let session = Session::with_options(&g, options).unwrap();
        let fetched = session.run::<f32>(sum, [x.feed(rank as f32 + 1.0)]);
        fetched.map_err(|e| e.to_string())
    });
    assert_eq!((&found[0], &found[2]), (&Ok(4.0), &Ok(4.0)));
    assert!(found[1].as_ref().is_err_and(|e| e.contains("not in set 1")));
}
