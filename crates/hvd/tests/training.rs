//! Distributed training: ranks are threads with a session each, compared with one rank that has all the data.

mod support;

use std::thread;
use std::time::Duration;

use support::on_ranks;
use thalweg_graph::{Graph, Operation, Output};
use thalweg_hvd::{Compression, DistributedOptimizer, Hvd, Join, ReduceOp};
use thalweg_ops::{
    ArrayOps, CollectiveOps, LinalgOps, MathOps, NewGraph, ReduceOps, SourceOps, StateOps,
};
use thalweg_optim::{Accumulate, GradientDescent, Momentum, Optimizer, create_global_step};
use thalweg_session::{Feeding, RunOptions, Session, SessionOptions};
use thalweg_tensor::{DType, Tensor};
use thalweg_train::MonitoredTrainingSession;
use thalweg_train::hooks::StopAtStepHook;

const ROWS: usize = 12;
const STEPS: usize = 5;

/// All the data: rows of three numbers, and their targets.
fn data() -> (Vec<f32>, Vec<f32>) {
    let x: Vec<f32> = (0..ROWS * 3)
        .map(|i| ((i * 7 % 11) as f32 - 5.0) / 5.0)
        .collect();
    let y = x
        .chunks(3)
        .map(|r| r[0] - 2.0 * r[1] + 0.5 * r[2])
        .collect();
    (x, y)
}

/// A small network, with several variables of different sizes.
fn network<'g>(g: &'g Graph) -> ([Output<'g>; 2], Output<'g>) {
    let x = g.placeholder("x", DType::F32, [-1, 3]);
    let y = g.placeholder("y", DType::F32, [-1]);
    let first: Vec<f32> = (0..12).map(|i| (i as f32).sin() * 0.5).collect();
    let w1 = g.variable("w1", Tensor::new(&[3, 4], &first).unwrap());
    let b1 = g.variable("b1", vec![0.1f32; 4]);
    let w2 = g.variable(
        "w2",
        Tensor::new(&[4, 1], &[0.3f32, -0.2, 0.5, 0.7]).unwrap(),
    );
    let hidden = (x.matmul(w1.value()) + b1.value()).tanh();
    let found = hidden.matmul(w2.value()).reshape([-1]);
    ([x, y], (found - y).square().mean())
}

/// Trains on every n-th row; returns the variables.
fn trained(
    hvd: &Hvd,
    (rank, ranks): (usize, usize),
    minimize: impl for<'g> Fn(&Hvd, Output<'g>) -> Operation<'g>,
) -> Vec<f32> {
    let g = Graph::new();
    let ([x, y], loss) = network(&g);
    let train = minimize(hvd, loss);
    let session = Session::with_options(&g, hvd.session(SessionOptions::new().threads(1))).unwrap();
    session.run(g.initializers(), []).unwrap();
    let (all_x, all_y) = data();
    let own: Vec<usize> = (0..ROWS).filter(|r| r % ranks == rank).collect();
    let rows: Vec<f32> = own
        .iter()
        .flat_map(|r| all_x[3 * r..3 * r + 3].to_vec())
        .collect();
    let found: Vec<f32> = own.iter().map(|&r| all_y[r]).collect();
    let feeds = [
        x.feed(Tensor::new(&[own.len(), 3], &rows).unwrap()),
        y.feed(Tensor::vector(&found)),
    ];
    for _ in 0..STEPS {
        session.run::<()>(train, feeds.clone()).unwrap();
    }
    let all = g.trainable_variables();
    let values = all
        .iter()
        .map(|v| session.run::<Tensor>(v.value(), []).unwrap());
    values.flat_map(|t| t.to_vec::<f32>().unwrap()).collect()
}

fn momentum<'g>(hvd: &Hvd, loss: Output<'g>) -> Operation<'g> {
    hvd.distributed(Momentum::new(0.1, 0.9)).minimize(loss)
}

fn near(a: &[f32], b: &[f32], most: f32) {
    assert_eq!(a.len(), b.len());
    let furthest = a
        .iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(furthest <= most, "{furthest}: {a:?} {b:?}");
}

fn alone() -> Vec<f32> {
    trained(&Hvd::meet(&Join::alone()).unwrap(), (0, 1), momentum)
}

#[test]
fn n_ranks_learn_the_same_as_one_rank_with_all_data() {
    let one = alone();
    for size in 1..=4 {
        let all = on_ranks(size, |hvd| trained(&hvd, (hvd.rank(), size), momentum));
        for rank in &all {
            near(rank, &one, 1e-5);
            assert_eq!(*rank, all[0], "the same bits on all ranks");
        }
    }
}

#[test]
fn the_fusion_threshold_does_not_change_the_result() {
    let one = alone();
    for threshold in [0, 1, 20, 64, 1 << 20] {
        let all = on_ranks(2, |hvd| {
            trained(&hvd, (hvd.rank(), 2), |hvd, loss| {
                let optimizer = hvd.distributed(Momentum::new(0.1, 0.9));
                optimizer.fusion_threshold(threshold).minimize(loss)
            })
        });
        near(&all[0], &one, 1e-5);
        assert_eq!(all[0], all[1]);
    }
}

#[test]
fn groups_give_the_same_result_and_the_requested_number_of_reductions() {
    let one = alone();
    for (groups, expected) in [(1, 1), (2, 2), (3, 3), (9, 3)] {
        let all = on_ranks(2, |hvd| {
            trained(&hvd, (hvd.rank(), 2), |hvd, loss| {
                let train = hvd
                    .distributed(Momentum::new(0.1, 0.9))
                    .groups(groups)
                    .minimize(loss);
                let graph = loss.graph().snapshot();
                let reduced = graph
                    .nodes()
                    .filter(|(_, n)| n.op.name == "HorovodAllreduce");
                assert_eq!(reduced.count(), expected);
                train
            })
        });
        near(&all[0], &one, 1e-5);
        assert_eq!(all[0], all[1]);
    }
}

#[test]
fn a_predivide_factor_with_a_sum_is_a_mistake() {
    let errors = on_ranks(2, |hvd| {
        let g = Graph::new();
        let loss = g.variable("w", [1.0f32]).value().square().sum();
        let optimizer = hvd.distributed(GradientDescent::new(0.1)).op(ReduceOp::Sum);
        optimizer.gradient_predivide_factor(2.0).minimize(loss);
        g.errors()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    });
    for of_rank in errors {
        assert_eq!(of_rank.len(), 1, "{of_rank:?}");
        assert!(
            of_rank[0].contains("reduced by sum: leave it out"),
            "{of_rank:?}"
        );
        assert!(of_rank[0].contains("training.rs"), "{of_rank:?}");
    }
}

/// Trains two ranks by an optimizer of this form.
fn two(
    make: impl Fn(DistributedOptimizer<Momentum>) -> DistributedOptimizer<Momentum> + Sync,
) -> Vec<f32> {
    let all = on_ranks(2, |hvd| {
        trained(&hvd, (hvd.rank(), 2), |hvd, loss| {
            make(hvd.distributed(Momentum::new(0.1, 0.9))).minimize(loss)
        })
    });
    assert_eq!(all[0], all[1]);
    all[0].clone()
}

#[test]
fn compression_and_predivision_change_the_result_little() {
    let one = alone();
    near(&two(|o| o.compression(Compression::Fp16)), &one, 2e-3);
    near(&two(|o| o.compression(Compression::Bf16)), &one, 2e-2);
    near(&two(|o| o.gradient_predivide_factor(2.0)), &one, 1e-5);
    near(&two(|o| o.gradient_predivide_factor(4.0)), &one, 1e-5);
}

#[test]
fn a_sum_equals_the_average_times_the_number_of_ranks() {
    let sum = two(|o| o.op(ReduceOp::Sum));
    let double = trained(&Hvd::meet(&Join::alone()).unwrap(), (0, 1), |hvd, loss| {
        hvd.distributed(Momentum::new(0.2, 0.9)).minimize(loss)
    });
    near(&sum, &double, 1e-4);
    // The result of Adasum is between a sum and an average.
    let adasum = two(|o| o.op(ReduceOp::Adasum));
    assert!(adasum.iter().all(|x| x.is_finite()));
}

#[test]
fn backward_passes_per_step_equal_one_step_with_their_mean() {
    let of = |size: usize| {
        on_ranks(size, |hvd| {
            trained(&hvd, (hvd.rank(), size), |hvd, loss| {
                let optimizer = hvd.distributed(GradientDescent::new(0.1));
                optimizer
                    .backward_passes_per_step(STEPS as u32)
                    .minimize(loss)
            })
        })
    };
    let one = trained(&Hvd::meet(&Join::alone()).unwrap(), (0, 1), |_, loss| {
        Accumulate::new(GradientDescent::new(0.1), STEPS as u32).minimize(loss)
    });
    for rank in of(2) {
        near(&rank, &one, 1e-5);
    }
}

#[test]
fn a_process_set_trains_separately_from_other_ranks() {
    let all = on_ranks(3, |hvd| {
        let set = hvd.add_process_set(&[0, 2]).unwrap();
        let place = if hvd.rank() == 2 { 1 } else { 0 };
        let ranks = if set.includes(hvd.rank()) { 2 } else { 1 };
        trained(&hvd, (place, ranks), |hvd, loss| {
            let optimizer = Momentum::new(0.1, 0.9);
            match set.includes(hvd.rank()) {
                true => hvd.distributed(optimizer).process_set(&set).minimize(loss),
                false => optimizer.minimize(loss),
            }
        })
    });
    let one = alone();
    all.iter().for_each(|rank| near(rank, &one, 1e-5));
}

#[test]
fn all_ranks_start_with_the_variables_of_the_root() {
    let found = on_ranks(3, |hvd| {
        let g = Graph::new();
        let w = g.variable("w", [hvd.rank() as f32, 7.0]);
        let step = create_global_step(&g);
        let train = hvd
            .distributed(GradientDescent::new(0.5))
            .minimize_counting(w.value().square().sum(), step);
        let options = hvd.session(SessionOptions::new());
        let mut session = MonitoredTrainingSession::new(&g)
            .quiet()
            .hook(hvd.broadcast_hook(2))
            .hook(StopAtStepHook::last_step(1))
            .start(|| Session::with_options(&g, options.clone()))
            .unwrap();
        let before: Tensor = session.session().run(w.value(), []).unwrap();
        while !session.should_stop() {
            session.run::<()>(train, []).unwrap();
        }
        session.close().unwrap();
        before.to_vec::<f32>().unwrap()
    });
    assert_eq!(found, [[2.0, 7.0], [2.0, 7.0], [2.0, 7.0]]);
}

#[test]
fn collectives_run_outside_of_graphs() {
    on_ranks(3, |hvd| {
        let rank = hvd.rank() as f32;
        let own = Tensor::vector(&[rank, 1.0]);
        let sum = hvd.allreduce(own.clone(), ReduceOp::Sum).unwrap();
        assert_eq!(sum, Tensor::vector(&[3.0f32, 3.0]));
        assert_eq!(own, Tensor::vector(&[rank, 1.0]), "what was given stays");
        let rows = Tensor::vector(&vec![rank; hvd.rank()]);
        assert_eq!(
            hvd.allgather(rows).unwrap(),
            Tensor::vector(&[1.0f32, 2.0, 2.0])
        );
        assert_eq!(
            hvd.broadcast(Tensor::from(rank), 1).unwrap(),
            Tensor::from(1.0f32)
        );
        let to = Tensor::vector(&[rank * 10.0, rank * 10.0 + 2.0]);
        let (came, from) = hvd.alltoall(to, &[1, 0, 1]).unwrap();
        let expected: &[f32] = match hvd.rank() {
            0 => &[0.0, 10.0, 20.0],
            1 => &[],
            _ => &[2.0, 12.0, 22.0],
        };
        assert_eq!(came, Tensor::vector(expected));
        let each = if hvd.rank() == 1 { 0 } else { 1 };
        assert_eq!(from, Tensor::vector(&[each, each, each]));
        let part = hvd
            .reducescatter(Tensor::vector(&[1.0f32, 2.0, 3.0, 4.0]), ReduceOp::Sum)
            .unwrap();
        let expected: &[f32] = [&[3.0, 6.0][..], &[9.0], &[12.0]][hvd.rank()];
        assert_eq!(part, Tensor::vector(expected));
        let bits = hvd.allgather(Tensor::vector(&[hvd.rank() == 1])).unwrap();
        assert_eq!(bits, Tensor::vector(&[false, true, false]));
        hvd.barrier().unwrap();
    });
}

#[test]
fn different_graphs_are_an_error_with_the_first_difference() {
    let found = on_ranks(2, |hvd| {
        let g = Graph::new();
        let x = g.constant(vec![1.0f32; 3 + hvd.rank()]);
        let sum = g.name_scope("model", || x.all_reduce(ReduceOp::Sum));
        let session = Session::with_options(&g, hvd.session(SessionOptions::new())).unwrap();
        session.run::<Tensor>(sum, []).unwrap_err().to_string()
    });
    // Each error names both, on the rank that compared and on the others.
    for text in &found {
        let both = text.contains("f32[4]") && text.contains("f32[3]");
        assert!(
            both && text.contains("runs model/HorovodAllreduce"),
            "{found:?}"
        );
    }
}

#[test]
fn a_step_timeout_ends_the_other_ranks_with_its_reason() {
    let found = on_ranks(2, |hvd| {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [2]);
        let sum = x.all_reduce(ReduceOp::Sum);
        let session = Session::with_options(&g, hvd.session(SessionOptions::new())).unwrap();
        let step = |limit: u64| {
            let options = RunOptions::new().timeout(Duration::from_millis(limit));
            session.step_with(sum, [x.feed([1.0f32, 2.0])], &options)
        };
        step(20_000).unwrap();
        if hvd.rank() == 1 {
            thread::sleep(Duration::from_secs(1));
            return step(20_000).unwrap_err().to_string();
        }
        step(200).unwrap_err().to_string()
    });
    assert!(
        found[1].contains("rank 0") && found[1].contains("its step ended while"),
        "{found:?}"
    );
}

#[test]
fn splits_that_do_not_sum_to_the_rows_are_an_error_and_no_splits_are_even() {
    on_ranks(2, |hvd| {
        let own = hvd.rank() as f32;
        let rows = Tensor::vector(&[own, own + 10.0]);
        let (came, from) = hvd.alltoall(rows, &[]).unwrap();
        assert_eq!(from, Tensor::vector(&[1, 1]));
        let expected = [10.0 * own, 10.0 * own + 1.0];
        assert_eq!(came, Tensor::vector(&expected));
    });
    for splits in [&[2][..], &[1, 2], &[usize::MAX, 1]] {
        let found = on_ranks(2, |hvd| {
            let rows = Tensor::vector(&[1.0f32, 2.0]);
            hvd.alltoall(rows, splits).unwrap_err().to_string()
        });
        assert!(
            found.iter().any(|e| e.contains("do not share 2 rows")),
            "{found:?}"
        );
    }
}

#[test]
fn broadcasts_from_different_roots_are_an_error() {
    let found = on_ranks(2, |hvd| {
        let own = Tensor::vector(&[hvd.rank() as f32]);
        hvd.broadcast(own, hvd.rank()).unwrap_err().to_string()
    });
    assert!(found.iter().any(|e| e.contains("same graph")), "{found:?}");
}

#[test]
fn a_step_that_fails_during_plan_comparison_ends_the_job() {
    let found = on_ranks(2, |hvd| {
        let g = Graph::new();
        let sum = g.constant(vec![1.0f32; 3]).all_reduce(ReduceOp::Sum);
        let session = Session::with_options(&g, hvd.session(SessionOptions::new())).unwrap();
        let limit = match hvd.rank() {
            0 => Duration::from_millis(200),
            _ => {
                thread::sleep(Duration::from_secs(1));
                Duration::from_secs(20)
            }
        };
        let options = RunOptions::new().timeout(limit);
        session
            .step_with(sum, [], &options)
            .unwrap_err()
            .to_string()
    });
    assert!(
        found[1].contains("rank 0") && found[1].contains("compared plan 1"),
        "{found:?}"
    );
}

#[test]
fn a_collective_of_a_set_without_this_rank_is_an_immediate_error() {
    on_ranks(2, |hvd| {
        let set = hvd.add_process_set(&[0]).unwrap();
        let g = Graph::new();
        let x = g.constant(vec![1.0f32; 3]);
        let sum = x.all_reduce_in(ReduceOp::Sum, set.id());
        let session = Session::with_options(&g, hvd.session(SessionOptions::new())).unwrap();
        let done = session.run::<Tensor>(sum, []);
        match hvd.rank() {
            0 => assert_eq!(done.unwrap(), Tensor::vector(&[1.0f32; 3])),
            _ => assert!(
                done.unwrap_err()
                    .to_string()
                    .contains("rank 1 is not in set 1")
            ),
        }
    });
}

#[test]
fn two_sessions_of_a_rank_do_not_mix_their_results() {
    on_ranks(2, |hvd| {
        let alone = [0, 1].map(|rank| hvd.add_process_set(&[rank]).unwrap());
        thread::scope(|scope| {
            let own = alone[hvd.rank()].id();
            for (set, factor) in [(0, 2.0f32), (own, 1.0)] {
                let hvd = &hvd;
                scope.spawn(move || {
                    let g = Graph::new();
                    let x = g.placeholder("x", DType::F32, [3]);
                    let sum = x.all_reduce_in(ReduceOp::Sum, set);
                    let options = hvd.session(SessionOptions::new());
                    let session = Session::with_options(&g, options).unwrap();
                    for step in 0..50 {
                        let value = [step as f32, factor, 1.0];
                        let found: Tensor = session.run(sum, [x.feed(value)]).unwrap();
                        assert_eq!(found, Tensor::vector(&value.map(|v| v * factor)));
                    }
                });
            }
        });
    });
}

#[test]
fn plan_comparison_names_a_rank_that_left() {
    let found = on_ranks(2, |hvd| {
        if hvd.rank() == 1 {
            return String::new();
        }
        let g = Graph::new();
        let sum = g.constant(vec![1.0f32; 3]).all_reduce(ReduceOp::Sum);
        let session = Session::with_options(&g, hvd.session(SessionOptions::new())).unwrap();
        let began = std::time::Instant::now();
        let error = session.run::<Tensor>(sum, []).unwrap_err().to_string();
        assert!(began.elapsed() < Duration::from_secs(20));
        error
    });
    assert!(
        found[0].contains("rank 1 is lost: it has shut down"),
        "{found:?}"
    );
}

#[test]
fn an_average_of_ones_is_exactly_one_on_any_number_of_ranks() {
    let found = on_ranks(7, |hvd| {
        let ones = hvd.allreduce(Tensor::vector(&[1i32, 7, -7]), ReduceOp::Average);
        ones.unwrap().to_vec::<i32>().unwrap()
    });
    assert!(found.iter().all(|f| *f == [1, 7, -7]), "{found:?}");
}
