//! Training on a card or the emulated GPU, compared with the CPU.

use thalweg::prelude::*;
use thalweg_examples::model;

use super::emulated_gpu::Call;
use super::test_gpu::{self, Gpu};

const STEPS: usize = 3;
const BATCH: usize = 4;
/// The tutorial's rate. With 1e-3, Adam's first steps, which follow the sign of each gradient, would amplify rounding
/// differences.
const RATE: f32 = 1e-4;

/// A batch for one step.
fn batch(step: usize) -> [Tensor; 3] {
    let pixels: Vec<f32> = (0..BATCH * 784)
        .map(|i| ((i * 37 + step * 101) % 256) as f32 / 255.0)
        .collect();
    let mut labels = vec![0.0f32; BATCH * 10];
    (0..BATCH).for_each(|i| labels[i * 10 + (i * 7 + step) % 10] = 1.0);
    [
        Tensor::new(&[BATCH, 784], &pixels).unwrap(),
        Tensor::new(&[BATCH, 10], &labels).unwrap(),
        Tensor::from(0.5f32),
    ]
}

/// The losses of some steps with dropout, and the loss and accuracy of the last batch in a test.
fn trained(format: DataFormat, device: &str, options: SessionOptions) -> Vec<f32> {
    let g = Graph::new();
    g.set_seed(7);
    let net = g.device(device, || model::deep_mnist(&g, format, RATE));
    let session = Session::with_options(&g, options).unwrap();
    session.run(g.initializers(), []).unwrap();
    let inputs = [net.images, net.labels, net.keep_prob];
    let mut step = session.callable((net.loss, net.train), inputs).unwrap();
    let loss = |i: usize| step.call(&batch(i)).unwrap().scalar::<f32>(0).unwrap();
    let mut losses: Vec<f32> = (0..STEPS).map(loss).collect();
    let mut test = session.callable(net.loss, inputs).unwrap();
    let [images, labels, _] = batch(0);
    let feeds = [images, labels, Tensor::from(1.0f32)];
    losses.push(test.call(&feeds).unwrap().scalar(0).unwrap());
    losses
}

/// Trains on the GPU and on the CPU; panics where the losses differ.
pub fn deep_mnist_trains_alike(gpu: &Gpu, format: DataFormat) {
    let on_gpu = trained(format, "/gpu:0", gpu.options());
    let on_cpu = trained(format, "/cpu:0", SessionOptions::new().threads(2));
    println!("{on_gpu:?}\n{on_cpu:?}");
    // A card's libraries may round a product's operands to 10 bits, and Adam's steps follow the sign of a small
    // gradient.
    let near = if test_gpu::is_required() { 2e-2 } else { 1e-3 };
    for (a, b) in on_gpu.iter().zip(&on_cpu) {
        assert!((a - b).abs() < near * b, "{on_gpu:?} and {on_cpu:?}");
    }
    // The last training step is one launch, and so is the second test's.
    let Some(calls) = gpu.calls() else { return };
    let replays = calls
        .iter()
        .filter(|c| **c == Call::Submit("launch a graph", None));
    assert_eq!(replays.count(), STEPS - 1);
}
