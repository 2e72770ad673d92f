//! A step of linear regression, through `run`, a `Callable`, and a monitored session whose hooks are not due, on one
//! thread.

use criterion::{Criterion, criterion_group, criterion_main};
use thalweg::prelude::*;
use thalweg::train::hooks::{
    CheckpointSaverHook, Every, LoggingTensorHook, StepCounterHook, StopAtStepHook,
};

fn linear_regression(c: &mut Criterion) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let y = g.placeholder("y", DType::F32, []);
    let w = g.variable("weight", 0.0f32);
    let b = g.variable("bias", 0.0f32);
    let loss = (y - (x * w + b)).square();
    let train = GradientDescent::new(0.001).minimize(loss);
    let options = SessionOptions::new().threads(1);
    let session = Session::with_options(&g, options).expect("the graph has no mistakes");
    session.step(g.initializers(), []).expect("variables");

    let mut group = c.benchmark_group("linear_regression");
    group.bench_function("run", |b| {
        b.iter(|| {
            let feeds = [x.feed(1.0f32), y.feed(3.0f32)];
            let step = session.step((train, loss), feeds).expect("a step");
            step.scalar::<f32>(1).expect("a loss")
        });
    });
    let mut callable = session.callable((train, loss), [x, y]).expect("fetches");
    let feeds: [Tensor; 2] = [1.0f32.into(), 3.0f32.into()];
    group.bench_function("callable", |b| {
        b.iter(|| {
            let step = callable.call(&feeds).expect("a step");
            step.scalar::<f32>(1).expect("a loss")
        });
    });
    let counting = create_global_step(&g);
    let train = GradientDescent::new(0.001).minimize_counting(loss, counting);
    session.step(g.initializers(), []).expect("variables");
    group.bench_function("run, counting", |b| {
        b.iter(|| {
            let feeds = [x.feed(1.0f32), y.feed(3.0f32)];
            let (_, loss): ((), f32) = session.run((train, loss), feeds).expect("a step");
            loss
        });
    });
    for hooks in [false, true] {
        let mut training = MonitoredTrainingSession::new(&g).quiet();
        if hooks {
            let folder = std::env::temp_dir().join("thalweg-bench");
            let never = Every::Steps(1 << 60);
            training = training
                .hook(StopAtStepHook::last_step(1 << 60))
                .hook(CheckpointSaverHook::new(folder, never, Saver::new(&g)))
                .hook(StepCounterHook::new(never))
                .hook(LoggingTensorHook::every_steps(
                    [("loss", loss.id())],
                    1 << 60,
                ));
        }
        let make = || Session::with_options(&g, SessionOptions::new().threads(1));
        let mut monitored = training.start(make).expect("a session");
        let name = ["monitored", "monitored, four hooks not due"][usize::from(hooks)];
        group.bench_function(name, |b| {
            b.iter(|| {
                let feeds = [x.feed(1.0f32), y.feed(3.0f32)];
                let fetched = monitored.run::<((), f32)>((train, loss), feeds);
                fetched.expect("a step").expect("no end")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, linear_regression);
criterion_main!(benches);
