//! Placement of graphs of 10,000 and 100,000 nodes: a chain without device requests, a tree of sums over constants, and
//! layers with variables on requested servers.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use thalweg::graph::place::{PlaceOptions, place};
use thalweg::graph::{DeviceSpec, GraphData, Node};
use thalweg::prelude::*;

fn device(job: &str, task: u32, index: u32) -> DeviceSpec {
    DeviceSpec {
        job: Some(job.into()),
        replica: Some(0),
        task: Some(task),
        device_type: Some("CPU".into()),
        index: Some(index),
    }
}

fn chain(nodes: usize) -> GraphData {
    let g = Graph::new();
    let mut at = g.placeholder("x", DType::F32, [2]);
    for _ in 1..nodes {
        at = -at;
    }
    GraphData::clone(&g.snapshot())
}

fn tree(nodes: usize) -> GraphData {
    let g = Graph::new();
    let mut level: Vec<Output<'_>> = (0..nodes / 2).map(|_| g.constant([1.0f32, 2.0])).collect();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| match pair {
                [a, b] => *a + *b,
                _ => pair[0],
            })
            .collect();
    }
    GraphData::clone(&g.snapshot())
}

/// Variables on 8 servers in turn, and layers on two workers.
fn layers(nodes: usize) -> GraphData {
    let g = Graph::new();
    let mut at = g.placeholder("x", DType::F32, [2]);
    for i in 0..nodes / 6 {
        at = at * g.variable(&format!("v{i}"), [1.0f32, 2.0]);
    }
    let mut data = GraphData::new();
    for (i, (_, node)) in g.snapshot().nodes().enumerate() {
        let mut node = Node::clone(node);
        let (job, tasks) = match node.op.name {
            "VarHandleOp" => ("ps", 8),
            _ => ("worker", 2),
        };
        if matches!(node.op.name, "VarHandleOp" | "Mul") {
            node.device.job = Some(job.into());
            node.device.task = Some(i as u32 % tasks);
        }
        data.push(node);
    }
    data
}

fn placement(c: &mut Criterion) {
    let workers = (0..2).flat_map(|t| (0..4).map(move |i| device("worker", t, i)));
    let servers = (0..8).map(|t| device("ps", t, 0));
    let devices: Vec<DeviceSpec> = workers.chain(servers).collect();
    let options = PlaceOptions {
        devices: &devices,
        kernels: &|_| ["CPU"].into_iter().collect(),
        soft: false,
        deny_fallback: false,
        fixed: None,
    };
    type Build = fn(usize) -> GraphData;
    let shapes: [(&str, Build); 3] = [("chain", chain), ("tree", tree), ("layers", layers)];
    let mut group = c.benchmark_group("placement");
    group.sample_size(10);
    for (name, build) in shapes {
        for nodes in [10_000, 100_000] {
            let data = build(nodes);
            group.throughput(Throughput::Elements(data.len() as u64));
            group.bench_function(BenchmarkId::new(name, nodes), |b| {
                b.iter(|| place(&data, &options).expect("a placement"));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, placement);
criterion_main!(benches);
