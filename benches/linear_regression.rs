//! A step of linear regression, through `run` and through a `Callable`, on one thread.

use criterion::{Criterion, criterion_group, criterion_main};
use thalweg::prelude::*;

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
    group.finish();
}

criterion_group!(benches, linear_regression);
criterion_main!(benches);
