//! Input pipelines in trainings that are interrupted: positions, and the bits of what follows.

use std::ops::ControlFlow;
use std::path::Path;

use thalweg::data::Pipeline;
use thalweg::data::pipeline::{Remainder, Stage, from_vec};
use thalweg::prelude::*;
use thalweg::train::hooks::Every;
use thalweg_tests::folders::Folder;

const STEPS: i64 = 20;

/// 23 examples in batches of 4: epochs end within a batch. Each element has noise of its own number.
fn batches(threads: usize) -> Pipeline<impl Stage<Item = [Tensor; 2]>> {
    from_vec((0..23i64).collect())
        .shuffle(10, 7)
        .repeat(None)
        .enumerate()
        .map_parallel(threads, |(number, x)| {
            let noise =
                (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1 << 24) as f32;
            let x = x as f32 / 23.0;
            Ok([Tensor::from(x), Tensor::from(3.0 * x + 0.1 * noise)])
        })
        .batch(4, Remainder::Drop)
        .prefetch(2)
}

/// Trains up to a step, and returns the bits of the weights; `None` for a process that is gone before.
fn train(folder: &Path, threads: usize, gone_at: i64) -> Option<Vec<u32>> {
    let g = Graph::new();
    let (x, y) = (
        g.placeholder("x", DType::F32, [None]),
        g.placeholder("y", DType::F32, [None]),
    );
    let w = g.variable("w", Tensor::from([0.5f32, 0.25]));
    let of = |i: i64| w.value().slice([i], [1i64]);
    let loss = (of(0) * x + of(1) - y).square().reduce_mean(&[0], false);
    let train = Momentum::new(0.1, 0.9).minimize_counting(loss, create_global_step(&g));
    let mut session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(folder)
        .save_checkpoint(Every::Steps(3))
        .quiet()
        .start(|| Session::new(&g))
        .unwrap();
    let mut batches = batches(threads);
    // A step takes a batch: the global step of the checkpoint is the position.
    let mut step = session.global_step().unwrap().unwrap();
    batches.seek(step as u64).unwrap();
    while step < STEPS {
        if step == gone_at {
            // Nothing is saved at a kill.
            std::mem::forget(session);
            return None;
        }
        let [a, b] = batches.next().unwrap().unwrap();
        session.run::<()>(train, [x.feed(a), y.feed(b)]).unwrap();
        step += 1;
    }
    let weights: Vec<f32> = session.session().run(w.value(), []).unwrap();
    session.close().unwrap();
    Some(weights.into_iter().map(f32::to_bits).collect())
}

#[test]
fn a_training_that_is_resumed_in_mid_epoch_has_the_bits_of_the_undisturbed_one() {
    let whole = Folder::new("input-whole");
    let undisturbed = train(whole.path(), 1, -1).unwrap();
    let interrupted = Folder::new("input-interrupted");
    for gone_at in [2, 8, 17] {
        assert_eq!(train(interrupted.path(), 3, gone_at), None);
    }
    assert_eq!(train(interrupted.path(), 2, -1).unwrap(), undisturbed);
}

#[test]
fn steps_run_over_batches_up_to_the_end_or_a_break() {
    let g = Graph::new();
    let (x, y) = (
        g.placeholder("x", DType::F32, [None]),
        g.placeholder("y", DType::F32, [None]),
    );
    let session = Session::new(&g).unwrap();
    let mut sum = session
        .callable((x + y).reduce_sum(&[0], false), [x, y])
        .unwrap();
    let mut expected = Vec::new();
    for [a, b] in batches(1).by_ref().take(5).map(Result::unwrap) {
        let (a, b): (Vec<f32>, Vec<f32>) = (a.to_vec().unwrap(), b.to_vec().unwrap());
        expected.push(a.iter().zip(b).map(|(a, b)| a + b).sum::<f32>());
    }
    let mut batches = batches(2);
    let mut found = Vec::new();
    let times = sum
        .run_over(batches.by_ref(), |results| {
            found.push(results.scalar::<f32>(0)?);
            Ok::<_, Box<dyn std::error::Error>>(match found.len() {
                5 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        })
        .unwrap();
    assert_eq!((times.steps, batches.position()), (5, 5));
    assert!((0.0..=1.0).contains(&times.waited_share()));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    }
    // A batch that does not fit ends the loop with the error of the step.
    let wrong = [Ok::<_, Box<dyn std::error::Error>>([Tensor::from(1.0f32)])];
    let error = sum.run_over(wrong, |_| {
        Ok::<_, Box<dyn std::error::Error>>(ControlFlow::Continue(()))
    });
    assert!(error.unwrap_err().to_string().contains("2"));
}
