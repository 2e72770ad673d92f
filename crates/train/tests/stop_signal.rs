//! A signal ends a monitored loop. Alone in its program: signals are the process's.
#![cfg(all(feature = "signals", unix))]

use signal_hook::consts::SIGTERM;
use signal_hook::low_level::raise;
use thalweg_graph::Graph;
use thalweg_ops::{MathOps, NewGraph, StateOps};
use thalweg_optim::{GradientDescent, Optimizer, create_global_step};
use thalweg_session::Session;
use thalweg_train::MonitoredTrainingSession;
use thalweg_train::hooks::StopOnSignalHook;

/// Trains until a signal, which comes in step `at`. Returns the steps.
fn train(folder: &std::path::Path, at: i64) -> Vec<i64> {
    let g = Graph::new();
    let w = g.variable("w", 0.0f32);
    let loss = (w.value() - 3.0).square();
    let step = create_global_step(&g);
    let train = GradientDescent::new(0.25).minimize_counting(loss, step);
    let mut session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(folder)
        .hook(StopOnSignalHook::catch().unwrap())
        .quiet()
        .start(|| Session::new(&g))
        .unwrap();
    let mut steps = Vec::new();
    while let Some(()) = session.run(train, []).unwrap() {
        steps.push(session.global_step().unwrap().unwrap());
        if steps.last() == Some(&at) {
            raise(SIGTERM).unwrap();
        }
        assert!(steps.len() < 100, "the signal is not noticed");
    }
    session.close().unwrap();
    steps
}

#[test]
fn a_signal_ends_the_loop_and_the_last_step_is_saved() {
    let folder = std::env::temp_dir().join(format!("thalweg-signal-{}", std::process::id()));
    assert_eq!(train(&folder, 3), [1, 2, 3, 4]);
    let g = Graph::new();
    let step = create_global_step(&g);
    let _ = g.variable("w", 0.0f32);
    let session = Session::new(&g).unwrap();
    let saver = thalweg_train::Saver::new(&g);
    saver
        .restore(&session, folder.join("model.ckpt-4"))
        .unwrap();
    assert_eq!(session.run::<i64>(step.value(), []).unwrap(), 4);
    std::fs::remove_dir_all(&folder).unwrap();
}
