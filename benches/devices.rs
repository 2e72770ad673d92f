//! Costs of partitioning a graph: a chain of small ops that alternates between two devices; placement, partitioning and
//! compilation of large graphs.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use thalweg::prelude::*;

const HOPS: usize = 1000;

/// A chain of additions to a vector, on one device or alternating between two.
fn chain(g: &Graph, hops: usize, elements: i64, cut: bool) -> (Output<'_>, Output<'_>) {
    let x = g.placeholder("x", DType::F32, [elements]);
    let mut y = x;
    for i in 0..hops {
        let device = if cut { i % 2 } else { 0 };
        y = g.device(format!("/cpu:{device}"), || y + 1.0);
    }
    (x, y)
}

fn hops(c: &mut Criterion) {
    let mut group = c.benchmark_group("chain of 1000 additions");
    group.throughput(Throughput::Elements(HOPS as u64));
    for elements in [1, 1000, 100_000] {
        for (name, cut) in [("one device", false), ("alternating", true)] {
            let g = Graph::new();
            let (x, y) = chain(&g, HOPS, elements, cut);
            let options = SessionOptions::new().cpus(2);
            let session = Session::with_options(&g, options).expect("two devices");
            let mut step = session.callable(y, [x]).expect("a fetch");
            let input = Tensor::new(&[elements as usize], &vec![1.0f32; elements as usize]);
            let feeds = [input.expect("a vector")];
            step.call(&feeds).expect("a step");
            group.bench_function(BenchmarkId::new(name, elements), |b| {
                b.iter(|| step.call(&feeds).expect("a step").tensor(0).is_ok());
            });
        }
    }
    group.finish();
}

/// A graph of about `nodes` nodes over eight devices: chains with occasional edges between them.
fn wide(g: &Graph, nodes: usize) -> (Output<'_>, Output<'_>) {
    let x = g.placeholder("x", DType::F32, [8]);
    let mut chains = [x; 8];
    for i in 0..nodes {
        let (at, from) = (i % 8, (i / 8 * 3 + i) % 8);
        let other = if i % 5 == 0 { chains[from] } else { chains[at] };
        chains[at] = g.device(format!("/cpu:{at}"), || match i % 3 {
            0 => chains[at] + other,
            1 => (chains[at] * other).tanh(),
            _ => chains[at] - other,
        });
    }
    (x, g.add_n(&chains))
}

fn compiling(c: &mut Criterion) {
    let mut group = c.benchmark_group("place, cut and compile");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(5));
    for nodes in [1000, 10_000, 100_000] {
        let g = Graph::new();
        let (x, y) = wide(&g, nodes);
        let options = SessionOptions::new().cpus(8).threads(1);
        let feed = [x.feed(Tensor::new(&[8], &[0.1f32; 8]).expect("a vector"))];
        group.bench_function(BenchmarkId::from_parameter(nodes), |b| {
            b.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                for _ in 0..times {
                    let begin = Instant::now();
                    let session = Session::with_options(&g, options.clone()).expect("devices");
                    session.step(y, &feed).expect("a step");
                    spent += begin.elapsed();
                }
                spent
            });
        });
    }
    group.finish();
}

criterion_group!(benches, hops, compiling);
criterion_main!(benches);
