//! Dense layers that are split over ranks have the same weights and losses after training as whole layers.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use thalweg::collective::{Coordinator, Join};
use thalweg::hvd::{Hvd, ReduceOp};
use thalweg::prelude::*;
use thalweg_examples::split_layers::SplitLayers;

const ROWS: usize = 12;
const IN: usize = 12;
const UNITS: usize = 24;
const OUT: usize = 12;
const RATE: f32 = 0.05;
const STEPS: usize = 4;

/// Numbers between -0.5 and 0.5, different at each position.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 37 + seed * 11) % 101) as f32 / 101.0 - 0.5;
    (0..len).map(number).collect()
}

/// Some rows and columns of a matrix of `width` columns.
fn part(
    of: &[f32],
    width: usize,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
) -> Tensor {
    let dims = [rows.len(), columns.len()];
    let row = |r: usize| of[r * width..][columns.clone()].to_vec();
    let values: Vec<f32> = rows.flat_map(row).collect();
    Tensor::new(&dims, &values).unwrap()
}

fn share(all: usize, of: usize, ranks: usize) -> std::ops::Range<usize> {
    let each = all / ranks;
    of * each..(of + 1) * each
}

/// Runs `size` ranks, each on a thread.
fn on_ranks<R: Send>(size: usize, run: impl Fn(Hvd) -> R + Sync) -> Vec<R> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let coordinator = Coordinator::start(listener, size, "secret").unwrap();
    let address = coordinator.address();
    thread::scope(|scope| {
        let rank = |rank: usize| {
            let run = &run;
            let join = Join::at(address, rank, size, "secret").timeout(Duration::from_secs(30));
            scope.spawn(move || run(Hvd::meet(&join).unwrap()))
        };
        let ranks: Vec<_> = (0..size).map(rank).collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    })
}

/// State of a rank after some steps: its columns of the first layer, its rows of the second one, the biases of the
/// second one, and the loss of the last step, of the mean of all rows.
type Learned = ([Vec<f32>; 3], f32);

fn learned(hvd: &Hvd) -> Learned {
    let (rank, ranks) = (hvd.rank(), hvd.size());
    let split = SplitLayers::over(ranks);
    let g = Graph::new();
    let x = g.constant(part(
        &numbers(ROWS * IN, 1),
        IN,
        share(ROWS, rank, ranks),
        0..IN,
    ));
    let y = g.constant(part(
        &numbers(ROWS * OUT, 2),
        OUT,
        share(ROWS, rank, ranks),
        0..OUT,
    ));
    let units = share(UNITS, rank, ranks);
    let w1 = g.variable(
        "w1",
        part(&numbers(IN * UNITS, 3), UNITS, 0..IN, units.clone()),
    );
    let b1 = g.variable("b1", numbers(UNITS, 4)[units.clone()].to_vec());
    let w2 = g.variable("w2", part(&numbers(UNITS * OUT, 5), OUT, units, 0..OUT));
    let b2 = g.variable("b2", numbers(OUT, 6));
    let hidden = split.by_columns(x, w1.value(), b1.value()).tanh();
    // There and back: nothing changes.
    let hidden = split.own_features(split.own_rows(hidden, UNITS), UNITS);
    let found = split.by_rows(hidden, w2.value(), b2.value(), OUT);
    let loss = (found - y).square().mean() * (1.0 / ranks as f64);

    let optimizer = GradientDescent::new(RATE);
    let pairs = optimizer.compute_gradients(loss, &[w1, b1, w2, b2]);
    let whole = hvd.distributed(optimizer).op(ReduceOp::Sum);
    let mut all = pairs[..3].to_vec();
    all.extend(whole.reduced(&g, &pairs[3..]));
    let train = optimizer.apply_gradients(&g, &all, None);
    let total = loss.all_reduce(ReduceOp::Sum);

    let session = Session::with_options(&g, hvd.session(SessionOptions::new().threads(1))).unwrap();
    session.run(g.initializers(), []).unwrap();
    let mut last = 0.0;
    for _ in 0..STEPS {
        let ((), value) = session.run::<((), f32)>((train, total), []).unwrap();
        last = value;
    }
    let values = [w1, w2, b2].map(|v| {
        session
            .run::<Tensor>(v.value(), [])
            .unwrap()
            .to_vec()
            .unwrap()
    });
    (values, last)
}

fn near(a: f32, b: f32) -> bool {
    (a - b).abs() < 1e-5
}

#[test]
fn split_layers_match_whole_layers_after_training() {
    let (whole, loss) = on_ranks(1, |hvd| learned(&hvd)).remove(0);
    for ranks in [2, 3, 4] {
        for (rank, (found, last)) in on_ranks(ranks, |hvd| learned(&hvd)).into_iter().enumerate() {
            assert!(near(last, loss), "{last} {loss}");
            let units = share(UNITS, rank, ranks);
            let columns = part(&whole[0], UNITS, 0..IN, units.clone());
            let rows = part(&whole[1], OUT, units, 0..OUT);
            let expected = [
                columns.to_vec().unwrap(),
                rows.to_vec().unwrap(),
                whole[2].clone(),
            ];
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.len(), expected.len());
                assert!(
                    found
                        .iter()
                        .zip(expected)
                        .all(|(&a, &b): (&f32, &f32)| near(a, b))
                );
            }
        }
    }
}

#[test]
fn features_not_divisible_by_the_ranks_are_an_error() {
    assert_eq!(SplitLayers::over(4).share(12), Ok(3));
    let error = SplitLayers::over(5).share(12).unwrap_err();
    assert!(
        error.contains("12 features cannot be split over 5 ranks"),
        "{error}"
    );
}
