//! Data and model parallelism in one process, compared with training on one device: towers that share variables, and a
//! model with layers on different devices.

use std::sync::atomic::{AtomicU32, Ordering};

use thalweg::prelude::*;
use thalweg_examples::model;
use thalweg_tests::cpus::cpus;

const BATCH: usize = 8;
const STEPS: usize = 4;

/// A batch for one step, for any device.
fn batch(step: usize, n: usize) -> [Tensor; 3] {
    let pixels: Vec<f32> = (0..n * 784)
        .map(|i| ((i * 37 + step * 101) % 256) as f32 / 255.0)
        .collect();
    let mut labels = vec![0.0f32; n * 10];
    (0..n).for_each(|i| labels[i * 10 + (i * 7 + step) % 10] = 1.0);
    [
        Tensor::new(&[n, 784], &pixels).unwrap(),
        Tensor::new(&[n, 10], &labels).unwrap(),
        Tensor::from(1.0f32),
    ]
}

/// The parameters after some steps.
fn trained(session: &Session<'_>, weights: &[Variable<'_>]) -> Vec<Vec<f32>> {
    let values = session.step(weights.to_vec(), []).unwrap();
    (0..weights.len())
        .map(|i| values.slice::<f32>(i).unwrap().to_vec())
        .collect()
}

/// The largest difference, in units of the largest value.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let largest = a.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    let apart = a.iter().zip(b).map(|(x, y)| (x - y).abs());
    // Not `max`, which forgets NaN.
    apart.fold(0.0, |m, x| if x <= m { m } else { x }) / largest
}

/// Change of each number.
fn update(before: &[f32], after: &[f32]) -> Vec<f32> {
    before.iter().zip(after).map(|(b, a)| a - b).collect()
}

/// Initial values that do not depend on how the graph was built.
fn initialize(session: &Session<'_>, weights: &[Variable<'_>]) {
    let g = session.graph();
    session.run(g.initializers(), []).unwrap();
    let values = weights.iter().enumerate().map(|(i, w)| {
        let n: usize = w.value().shape().to_dims().unwrap().iter().product();
        let value = |j: usize| ((j * 7919 + i * 104_729) % 1009) as f32 / 10_090.0 - 0.05;
        (0..n).map(value).collect()
    });
    set(session, weights, &values.collect::<Vec<_>>());
}

/// Assigns these values to the parameters.
fn set(session: &Session<'_>, weights: &[Variable<'_>], values: &[Vec<f32>]) {
    let assign = weights.iter().zip(values).map(|(w, values)| {
        let dims = w.value().shape().to_dims().unwrap();
        w.assign(Tensor::new(&dims, values).unwrap())
    });
    session.run(assign.collect::<Vec<_>>(), []).unwrap();
}

/// The parameters at first and after each step.
fn one_device(format: DataFormat) -> Vec<Vec<Vec<f32>>> {
    let g = Graph::new();
    g.set_seed(3);
    let inputs = model::placeholders(&g);
    let weights = model::Weights::new(|make| make());
    let (loss, _) = model::tower(&g, inputs, format, &weights);
    let train = GradientDescent::new(0.05).minimize(loss);
    let session = Session::with_options(&g, SessionOptions::new().threads(2)).unwrap();
    initialize(&session, &weights.all());
    let mut step = session.callable(train, inputs).unwrap();
    let mut all = vec![trained(&session, &weights.all())];
    for i in 0..STEPS {
        step.call(&batch(i, 2 * BATCH)).unwrap();
        all.push(trained(&session, &weights.all()));
    }
    all
}

/// The parameters after each step. Each tower takes its half of the batch on its own device; gradients are averaged,
/// and the variables live, on the first. Each step starts from the values of `one` after the step before: a difference
/// in the last bit could make another pixel the largest of a window, or another number positive, and so change the
/// gradients.
fn two_towers(format: DataFormat, one: &[Vec<Vec<f32>>]) -> Vec<Vec<Vec<f32>>> {
    let g = Graph::new();
    g.set_seed(3);
    let inputs = model::placeholders(&g);
    let weights = model::Weights::new(|make| g.device("/cpu:0", make));
    let optimizer = GradientDescent::new(0.05);
    let mut towers = Vec::new();
    for tower in 0..2 {
        g.device(format!("/cpu:{tower}"), || {
            let [images, labels, keep_prob] = inputs;
            let [images, labels] = [images, labels].map(|x| x.split(2, 0)[tower]);
            let inputs = [images, labels, keep_prob];
            let (loss, _) = model::tower(&g, inputs, format, &weights);
            towers.push(optimizer.compute_gradients(loss, &weights.all()));
        });
    }
    let averaged: Vec<_> = towers[0]
        .iter()
        .zip(&towers[1])
        .map(|(a, b)| {
            let mean = g.colocate_with(a.1.handle().operation(), || (a.0 + b.0) * 0.5);
            (mean, a.1)
        })
        .collect();
    let train = optimizer.apply_gradients(&g, &averaged, None);
    let session = Session::with_options(&g, cpus(2)).unwrap();
    initialize(&session, &weights.all());
    let mut step = session.callable(train, inputs).unwrap();
    let mut all = Vec::new();
    for (i, one) in one[1..].iter().enumerate() {
        step.call(&batch(i, 2 * BATCH)).unwrap();
        all.push(trained(&session, &weights.all()));
        set(&session, &weights.all(), one);
    }
    all
}

fn dense<'g>(x: Output<'g>, from: i32, to: i32) -> Output<'g> {
    let g = x.graph();
    let initial = g.truncated_normal([from, to], 0.0, 0.3, DType::F32, None);
    x.matmul(g.variable("weight", initial)) + g.variable("bias", vec![0.0f32; to as usize])
}

/// The bits of the parameters and of the loss after each step of a small network, whose layers are
/// built in these device scopes.
fn layers(devices: [&str; 3], options: SessionOptions) -> Vec<Vec<u32>> {
    let g = Graph::new();
    g.set_seed(5);
    let x = g.placeholder("x", DType::F32, [16, 12]);
    let y = g.placeholder("y", DType::F32, [16, 4]);
    let a = g.device(devices[0], || dense(x, 12, 300).tanh());
    let b = g.device(devices[1], || dense(a, 300, 200).relu());
    let loss = g.device(devices[2], || {
        dense(b, 200, 4).softmax_cross_entropy(y).mean()
    });
    let train = Adam::new(0.01).minimize(loss);
    let session = Session::with_options(&g, options).unwrap();
    session.run(g.initializers(), []).unwrap();
    let values = |n: usize, step: usize| {
        let value = |i: usize| ((i * 29 + step * 13) % 64) as f32 / 32.0 - 1.0;
        (0..n).map(value).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    for step in 0..5 {
        let x = x.feed(Tensor::new(&[16, 12], &values(16 * 12, step)).unwrap());
        let y = y.feed(Tensor::new(&[16, 4], &values(64, step)).unwrap());
        let got = session.step((train, loss), [x, y]).unwrap();
        let mut bits = vec![got.scalar::<f32>(1).unwrap().to_bits()];
        let weights = g.trainable_variables();
        let values = trained(&session, &weights);
        bits.extend(values.iter().flatten().map(|v| v.to_bits()));
        all.push(bits);
    }
    all
}

#[test]
fn a_model_split_over_devices_trains_bit_for_bit_as_on_one() {
    let one = layers([""; 3], SessionOptions::new().threads(2));
    for devices in [
        ["/cpu:0", "/cpu:1", "/cpu:0"],
        ["/cpu:2", "/cpu:1", "/cpu:0"],
    ] {
        assert_eq!(layers(devices, cpus(3)), one, "{devices:?}");
    }
}

#[test]
fn two_towers_train_as_one_device_with_the_doubled_batch() {
    for format in [DataFormat::Nhwc, DataFormat::Nchw] {
        let one = one_device(format);
        let two = two_towers(format, &one);
        for (step, (one, two)) in one.windows(2).zip(&two).enumerate() {
            for (i, (before, two)) in one[0].iter().zip(two).enumerate() {
                let [one, two] = [&one[1][i], two].map(|after| update(before, after));
                assert!(one.iter().any(|&x| x != 0.0), "{format:?}, weight {i}");
                let apart = difference(&one, &two);
                assert!(apart < 1e-3, "{format:?}, step {step}, weight {i}: {apart}");
            }
        }
    }
}

/// The bits of a table of embeddings after some steps, whole or in parts on devices of their own.
fn table(parts: Option<usize>) -> (Vec<u32>, Vec<u32>) {
    let g = Graph::new();
    let rows: Vec<f32> = (0..70).map(|i| (i % 13) as f32 / 13.0).collect();
    let initial = Tensor::new(&[7, 10], &rows).unwrap();
    let x = g.placeholder("x", DType::F32, [4, 7]);
    let next = AtomicU32::new(0);
    let spread = DeviceScope::function(move |node| {
        let handle = node.op.name == "VarHandleOp";
        let at = |i| DeviceSpec::parse(&format!("/cpu:{i}"));
        Ok(match handle {
            true => Some(at(next.fetch_add(1, Ordering::Relaxed) % 3)?),
            false => Some(node.device.clone()),
        })
    });
    let (value, all) = g.device(spread, || match parts {
        None => {
            let v = g.variable("table", initial);
            (v.value(), vec![v])
        }
        Some(parts) => {
            let v = g.partitioned_variable("table", initial, parts);
            (v.value(), v.parts().to_vec())
        }
    });
    let loss = x.matmul(value).square().mean();
    let train = Momentum::new(0.1, 0.9).minimize(loss);
    let session = Session::with_options(&g, cpus(3)).unwrap();
    session.run(g.initializers(), []).unwrap();
    let input = Tensor::new(
        &[4, 7],
        &(0..28).map(|i| i as f32 / 28.0).collect::<Vec<_>>(),
    );
    let input = input.unwrap();
    let mut losses = Vec::new();
    for _ in 0..4 {
        let got = session.step((loss, train), [x.feed(&input)]).unwrap();
        losses.push(got.scalar::<f32>(0).unwrap().to_bits());
    }
    let values = trained(&session, &all);
    let bits = values.iter().flatten().map(|v| v.to_bits()).collect();
    (losses, bits)
}

#[test]
fn a_partitioned_variable_trains_as_the_whole() {
    let whole = table(None);
    for parts in [1, 2, 3, 7] {
        assert_eq!(table(Some(parts)), whole, "{parts} parts");
    }
    let g = Graph::new();
    g.partitioned_variable("v", Tensor::from([1.0f32, 2.0]), 3);
    g.partitioned_variable("s", 1.0f32, 1);
    assert_eq!(g.errors().len(), 2);
}
