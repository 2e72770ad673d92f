//! A training step of deep MNIST at batch 50 on two threads, in both layouts.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thalweg::prelude::*;
use thalweg_examples::model;

const BATCH: usize = 50;

fn deep_mnist(c: &mut Criterion) {
    let mut group = c.benchmark_group("deep_mnist");
    group
        .throughput(Throughput::Elements(BATCH as u64))
        .sample_size(20)
        .measurement_time(Duration::from_secs(10));
    for format in [DataFormat::Nhwc, DataFormat::Nchw] {
        let g = Graph::new();
        g.set_seed(1);
        let net = model::deep_mnist(&g, format, 1e-4);
        let options = SessionOptions::new().threads(2);
        let session = Session::with_options(&g, options).expect("the graph has no mistakes");
        session.step(g.initializers(), []).expect("variables");
        let feeds = model::synthetic_feeds(BATCH).expect("room for a batch");
        let mut step = session
            .callable((net.train, net.loss), net.inputs())
            .expect("fetches");
        group.bench_function(format.name(), |b| {
            b.iter(|| {
                let step = step.call(&feeds).expect("a step");
                step.scalar::<f32>(1).expect("a loss")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, deep_mnist);
criterion_main!(benches);
