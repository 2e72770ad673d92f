//! Negotiated ranks, each a thread with a session of its own: some have less data than others, some another graph.

mod support;

use support::on_ranks_that;
use thalweg_graph::{Graph, Operation, Output};
use thalweg_hvd::{Hvd, Join, ReduceOp};
use thalweg_ops::{CollectiveOps, MathOps, NewGraph, ReduceOps, SourceOps, StateOps};
use thalweg_optim::{GradientDescent, Optimizer};
use thalweg_session::{Feeding, Session, SessionOptions};
use thalweg_tensor::{DType, Tensor};

const RATE: f32 = 0.1;

fn negotiated(join: Join) -> Join {
    join.negotiated(true)
}

/// A rank's batches: rank r has r + 1 of them.
fn batch(rank: usize, step: usize) -> [f32; 2] {
    [1.0 + rank as f32, 0.5 * step as f32 - 1.0]
}

fn squares<'g>(g: &'g Graph) -> (Output<'g>, Output<'g>) {
    let x = g.placeholder("x", DType::F32, [2]);
    let w = g.variable("w", [3.0f32, -4.0]);
    (x, (w.value() - x).square().sum())
}

/// The expected variable, by a plain loop: a rank without a batch has a gradient of zeros.
fn expected(size: usize) -> Vec<f32> {
    let mut w = [3.0f32, -4.0];
    for step in 0..size {
        for (i, w) in w.iter_mut().enumerate() {
            let gradient = |rank: usize| match step <= rank {
                true => 2.0 * (*w - batch(rank, step)[i]),
                false => 0.0,
            };
            let mean = (0..size).map(gradient).sum::<f32>() / size as f32;
            *w -= RATE * mean;
        }
    }
    w.to_vec()
}

/// Trains on the batches of the rank, joins, and takes the variable of the last one.
fn trained(hvd: &Hvd) -> Vec<f32> {
    let g = Graph::new();
    let (x, loss) = squares(&g);
    let train: Operation<'_> = hvd.distributed(GradientDescent::new(RATE)).minimize(loss);
    let session = Session::with_options(&g, hvd.session(SessionOptions::new().threads(1))).unwrap();
    session.run(g.initializers(), []).unwrap();
    for step in 0..=hvd.rank() {
        let fed = Tensor::vector(&batch(hvd.rank(), step));
        session.run::<()>(train, [x.feed(fed)]).unwrap();
    }
    let last = hvd.join().unwrap();
    let all = hvd.broadcast_global_variables(&g, last);
    session.run(all, []).unwrap();
    let w = g.trainable_variables()[0].value();
    session.run::<Tensor>(w, []).unwrap().to_vec().unwrap()
}

#[test]
fn ranks_with_less_data_join_and_the_others_continue() {
    for size in [2, 3] {
        let expected = expected(size);
        for found in on_ranks_that(size, negotiated, |hvd| trained(&hvd)) {
            for (a, b) in found.iter().zip(&expected) {
                assert!((a - b).abs() < 1e-5, "{found:?} {expected:?}");
            }
        }
    }
}

#[test]
fn graphs_with_collectives_in_different_orders_run_together() {
    let found = on_ranks_that(2, negotiated, |hvd| {
        let g = Graph::new();
        let mut names = ["a", "bb", "ccc"];
        if hvd.rank() == 1 {
            names.reverse();
        }
        let sum = |name: &&str| {
            let x = g.constant(vec![1.0f32; name.len()]);
            g.name_scope(name, || x.all_reduce(ReduceOp::Sum)).sum()
        };
        let sums: Vec<_> = names.iter().map(sum).collect();
        let total = sums[0] + sums[1] * 10.0 + sums[2] * 100.0;
        let session = Session::with_options(&g, hvd.session(SessionOptions::new())).unwrap();
        session.run::<f32>(total, []).unwrap()
    });
    assert_eq!(found, [642.0, 246.0]);
}

#[test]
fn collectives_outside_of_graphs_are_matched_by_name() {
    let found = on_ranks_that(2, negotiated, |hvd| {
        std::thread::scope(|scope| {
            let ask = |name: &'static str, value: f32| {
                let hvd = hvd.called(name);
                scope.spawn(move || {
                    let input = Tensor::vector(&vec![value; name.len()]);
                    hvd.allreduce(input, ReduceOp::Sum)
                        .unwrap()
                        .to_vec::<f32>()
                        .unwrap()
                })
            };
            let mut asked = vec![("x", 1.0), ("yy", 2.0)];
            if hvd.rank() == 1 {
                asked.reverse();
            }
            let asked: Vec<_> = asked.into_iter().map(|(n, v)| ask(n, v)).collect();
            let mut found: Vec<_> = asked.into_iter().map(|a| a.join().unwrap()).collect();
            found.sort_by_key(Vec::len);
            found
        })
    });
    for rank in found {
        assert_eq!(rank, [vec![2.0], vec![4.0, 4.0]]);
    }
}

#[test]
fn a_collective_that_needs_a_joined_rank_ends_the_job() {
    let found = on_ranks_that(2, negotiated, |hvd| match hvd.rank() {
        0 => {
            let g = Graph::new();
            let largest = g
                .constant([1.0f32])
                .all_reduce(ReduceOp::Max)
                .named("largest");
            let session = Session::with_options(&g, hvd.session(SessionOptions::new())).unwrap();
            session.run::<Tensor>(largest, []).unwrap_err().to_string()
        }
        _ => hvd.join().unwrap_err().to_string(),
    });
    for error in found {
        assert!(
            error.contains("needs a value of rank 1, which has joined"),
            "{error}"
        );
    }
}
