//! Concurrent steps, timeouts, and results that do not depend on the number of threads.

use std::time::{Duration, Instant};

use thalweg::prelude::*;
use thalweg::session::Parallel;
use thalweg_examples::model;

fn session(g: &Graph, threads: usize) -> Session<'_> {
    let options = SessionOptions::new()
        .threads(threads)
        .parallel(Parallel::Always);
    let session = Session::with_options(g, options).unwrap();
    session.run(g.initializers(), []).unwrap();
    session
}

/// A value of `n` elements that depends on `seed`.
fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 31 + seed * 17) % 101) as f32 / 50.0 - 1.0)
        .collect()
}

fn matrix(side: usize, seed: usize) -> Tensor {
    Tensor::new(&[side, side], &values(side * side, seed)).unwrap()
}

/// Products of matrices with many independent parts, so that one step keeps several threads busy.
fn products<'g>(x: Output<'g>, parts: usize) -> Vec<Output<'g>> {
    let g = x.graph();
    let part = |i: usize| {
        let w = g.variable("w", matrix(48, i));
        (x.matmul(w) * 0.02).relu().matmul(w).softmax()
    };
    (0..parts).map(part).collect()
}

#[test]
fn concurrent_steps_return_their_own_results() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [48, 48]);
    let y = products(x, 6);
    let alone = session(&g, 1);
    let inputs: Vec<Tensor> = (0..4).map(|i| matrix(48, 100 + i)).collect();
    let run = |session: &Session<'_>, input: &Tensor| -> Vec<Tensor> {
        let y: Vec<_> = y.iter().map(|y| g.output(y.id())).collect();
        let got = session.step(&y, [g.output(x.id()).feed(input)]).unwrap();
        (0..y.len())
            .map(|i| got.tensor(i).unwrap().clone())
            .collect()
    };
    let expected: Vec<Vec<Tensor>> = inputs.iter().map(|i| run(&alone, i)).collect();
    for threads in [1, 2, 3] {
        let shared = session(&g, threads);
        std::thread::scope(|s| {
            for (input, expected) in inputs.iter().zip(&expected) {
                let (shared, run) = (&shared, &run);
                s.spawn(move || (0..20).for_each(|_| assert_eq!(&run(shared, input), expected)));
            }
        });
    }
}

#[test]
fn concurrent_callables_are_independent() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [48, 48]);
    let y = products(x, 3);
    let shared = session(&g, 2);
    std::thread::scope(|s| {
        for seed in 0..4 {
            let (shared, y) = (&shared, &y);
            s.spawn(move || {
                let input = [matrix(48, seed)];
                let expected: Vec<Tensor> = shared.run(y, [x.feed(&input[0])]).unwrap();
                let mut step = shared.callable(y, [x]).unwrap();
                for _ in 0..20 {
                    let got = step.call(&input).unwrap();
                    for (i, expected) in expected.iter().enumerate() {
                        assert_eq!(got.tensor(i).unwrap(), expected);
                    }
                }
            });
        }
    });
}

#[test]
fn concurrent_updates_are_all_applied() {
    let g = Graph::new();
    let count = g.variable("count", 0i64);
    let wide = g.variable("wide", vec![0.0f32; 50_000]);
    let both = g.group(
        "both",
        [
            count.assign_add(1i64),
            wide.assign_add(vec![1.0f32; 50_000]),
        ],
    );
    let session = session(&g, 2);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..50).for_each(|_| drop(session.step(both, []).unwrap())));
        }
    });
    let got = session.step((count, wide), []).unwrap();
    assert_eq!(got.scalar::<i64>(0).unwrap(), 200);
    assert!(got.slice::<f32>(1).unwrap().iter().all(|&v| v == 200.0));
}

/// Later steps do not change a fetched result, in whatever thread they run.
#[test]
fn a_fetched_value_is_not_changed_by_later_steps() {
    let g = Graph::new();
    let w = g.variable("w", vec![0.0f32; 1000]);
    let add = w.assign_add(vec![1.0f32; 1000]);
    let session = session(&g, 2);
    std::thread::scope(|s| {
        s.spawn(|| (0..200).for_each(|_| drop(session.step(add, []).unwrap())));
        s.spawn(|| {
            for _ in 0..200 {
                let got = session.step(w, []).unwrap();
                let values = got.slice::<f32>(0).unwrap();
                let first = values[0];
                std::thread::yield_now();
                assert!(values.iter().all(|&v| v == first), "{values:?}");
            }
        });
    });
}

#[test]
fn a_step_that_times_out_leaves_the_session_usable() {
    for threads in [1, 2, 4] {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [48, 48]);
        let y = products(x, 40);
        let session = session(&g, threads);
        let feed = [x.feed(matrix(48, 7))];
        let start = Instant::now();
        let expected = session.step(&y, &feed).unwrap();
        let whole = start.elapsed();
        let mut stopped = 0;
        for part in [0, 8, 64] {
            let limit = whole.checked_div(part).unwrap_or(Duration::ZERO);
            match session.step_with(&y, &feed, &RunOptions::new().timeout(limit)) {
                Err(SessionError::Timeout { limit: l, .. }) => {
                    assert_eq!(l, limit);
                    stopped += 1;
                }
                Err(e) => panic!("{e}"),
                Ok(_) => {}
            }
            let got = session.step(&y, &feed).unwrap();
            for i in 0..y.len() {
                assert_eq!(got.tensor(i).unwrap(), expected.tensor(i).unwrap());
            }
        }
        assert!(stopped >= 1, "no time at all is too little");
    }
}

#[test]
fn an_error_in_one_thread_does_not_affect_others() {
    let g = Graph::new();
    let logits = g.placeholder("logits", DType::F32, [-1, 4]);
    let labels = g.placeholder("labels", DType::I64, [-1]);
    let loss = logits.sparse_softmax_cross_entropy(labels);
    let session = session(&g, 2);
    let n = 3000;
    let rows = Tensor::new(&[n, 4], &values(4 * n, 1)).unwrap();
    let good = vec![2i64; n];
    let mut bad = good.clone();
    bad[n - 1] = 4;
    std::thread::scope(|s| {
        for thread in 0..4 {
            let (rows, labels_of) = (&rows, if thread % 2 == 0 { &good } else { &bad });
            let session = &session;
            s.spawn(move || {
                for _ in 0..30 {
                    let feeds = [logits.feed(rows), labels.feed(labels_of.clone())];
                    let got = session.step(loss, feeds);
                    assert_eq!(got.is_ok(), thread % 2 == 0, "{got:?}");
                }
            });
        }
    });
}

/// A small network like deep MNIST's, dropout and random initial values included: its losses, and
/// the weights that it ends with.
fn training(threads: usize, format: DataFormat, seed: i64) -> Vec<u8> {
    let g = Graph::new();
    g.set_seed(seed);
    let net = model::deep_mnist(&g, format, 1e-3);
    let session = session(&g, threads);
    let mut all = Vec::new();
    for step in 0..3 {
        let mut labels = vec![0.0f32; 6 * 10];
        (0..6).for_each(|i| labels[i * 10 + (i + step) % 10] = 1.0);
        let feeds = [
            net.images
                .feed(Tensor::new(&[6, 784], &values(6 * 784, step)).unwrap()),
            net.labels.feed(Tensor::new(&[6, 10], &labels).unwrap()),
            net.keep_prob.feed(0.5f32),
        ];
        let got = session.step((net.train, net.loss), &feeds).unwrap();
        let loss = got.tensor(1).unwrap();
        assert!(loss.to_scalar::<f32>().unwrap().is_finite());
        all.extend_from_slice(loss.bytes());
    }
    for v in g.trainable_variables() {
        let got = session.step(v, []).unwrap();
        all.extend_from_slice(got.tensor(0).unwrap().bytes());
    }
    all
}

#[test]
fn the_same_seed_gives_the_same_training_on_any_number_of_threads() {
    for (format, others) in [(DataFormat::Nhwc, &[2, 3, 4][..]), (DataFormat::Nchw, &[2])] {
        let one = training(1, format, 1);
        for &threads in others {
            assert!(
                one == training(threads, format, 1),
                "{format:?}, {threads} threads"
            );
        }
    }
    let other = training(4, DataFormat::Nhwc, 2);
    assert!(
        other != training(4, DataFormat::Nhwc, 1),
        "another seed gives other numbers"
    );
}

/// From the text of a plan: the length of the longest chain of waits, the number of instructions, and the bytes of the
/// arena.
fn plan_statistics(plan: &str) -> (usize, usize, usize) {
    let mut longest: Vec<usize> = Vec::new();
    let mut bytes = 0;
    for line in plan.lines() {
        // "328 instructions, 51584 bytes"
        let total = line.split_once(" instructions, ");
        if let Some((_, total)) = total {
            bytes = total.trim_end_matches(" bytes").parse().unwrap();
        }
        let Some((_, waits)) = line.rsplit_once(" after [") else {
            continue;
        };
        let waits = waits.trim_end_matches(']').split(", ");
        let waits = waits.filter_map(|w| w.parse::<usize>().ok());
        longest.push(1 + waits.map(|w| longest[w]).max().unwrap_or(0));
    }
    let chain = longest.iter().copied().max().unwrap_or(0);
    (chain, longest.len(), bytes)
}

#[test]
fn memory_reuse_does_not_serialize_independent_branches() {
    let g = Graph::new();
    let branch = |i: usize| {
        let w = g.variable("w", matrix(32, i)).value();
        (0..20).fold(w, |x, _| x.matmul(w).tanh())
    };
    let ends: Vec<_> = (0..8).map(branch).collect();
    let plan =
        |threads, branches: usize| session(&g, threads).explain(&ends[..branches], []).unwrap();
    let (chain, count, _) = plan_statistics(&plan(1, 8));
    assert!(count > 300, "{count} instructions");
    assert!(
        chain > count * 9 / 10,
        "one thread uses memory again at once"
    );
    for threads in [2, 4, 8] {
        let (chain, count, bytes) = plan_statistics(&plan(threads, 8));
        assert!(
            chain < count / threads + 40,
            "a chain of {chain} of {count} instructions keeps {threads} threads from work"
        );
        // One branch has scratch memory for all threads, which depends on the processor's vectors. Blocks of several sizes
        // leave gaps; without use of memory again there would be twenty times as much.
        let (_, _, one) = plan_statistics(&plan(threads, 1));
        assert!(one > 0);
        assert!(
            bytes < 2 * threads * one + 8 * 4096,
            "{bytes} bytes on {threads} threads, {one} for a branch"
        );
    }
}
