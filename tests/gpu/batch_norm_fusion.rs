//! Fusion on GPUs: a batch normalization with a sum and a Relu in its pass, the Relu's gradient in that of the
//! normalization, and a sum of gradients in that of a Relu.

use thalweg::graph::Attr;
use thalweg::prelude::*;
use thalweg::session::Feed;
use thalweg_tests::test_gpu;

/// Batch normalization of images with so many channels.
fn normalized<'g>(x: Output<'g>, name: &str, channels: usize) -> Output<'g> {
    let g = x.graph();
    let each = |part: &str, first: f32| {
        let values: Vec<f32> = (0..channels).map(|c| first + 0.1 * c as f32).collect();
        g.variable(&format!("{name}/{part}"), values).value()
    };
    let none = g.constant(Tensor::zeros(DType::F32, &[0]).unwrap());
    let norm = g.op("FusedBatchNormV3").input(x);
    let norm = norm.inputs([each("scale", 0.7), each("offset", -0.2), none, none]);
    norm.attr("epsilon", 1e-3f32).build().output(0)
}

/// A convolution of 3 x 3 pixels.
fn convolved<'g>(x: Output<'g>, name: &str, from: usize, to: usize) -> Output<'g> {
    let g = x.graph();
    let values: Vec<f32> = (0..9 * from * to)
        .map(|i| (i as f32 * 0.7).sin() * 0.3)
        .collect();
    let filter = Tensor::new(&[3, 3, from, to], &values).unwrap();
    let filter = g.variable(name, filter).value().cast(x.dtype());
    let node = g.op("Conv2D").input(x).input(filter);
    let node = node.attr("strides", Attr::Ints(vec![1, 1, 1, 1]));
    node.attr("padding", "SAME").output()
}

/// Two blocks with a shortcut each, and a step of their training.
fn block<'g>(g: &'g Graph, x: Output<'g>, channels: usize) -> (Output<'g>, Operation<'g>) {
    let first = normalized(convolved(x, "w1", 3, channels), "n1", channels).relu();
    let second = normalized(convolved(first, "w2", channels, channels), "n2", channels);
    let middle = (second + first).relu();
    let third = normalized(convolved(middle, "w3", channels, channels), "n3", channels);
    let out = (third + middle).relu().cast(DType::F32);
    let weights: Vec<f32> = (0..channels).map(|c| c as f32 - 1.5).collect();
    let loss = (out * g.constant(weights)).mean();
    (loss, GradientDescent::new(0.05).minimize(loss))
}

fn feed<'g>(x: Output<'g>) -> [Feed<'g>; 1] {
    let values: Vec<f32> = (0..2 * 5 * 5 * 3).map(|i| (i as f32 * 1.3).cos()).collect();
    [x.feed(Tensor::new(&[2, 5, 5, 3], &values).unwrap())]
}

/// Losses of steps, and the variables after them; fused, or node by node.
fn trained(gpu: &test_gpu::Gpu, dtype: DType, channels: usize, fused: bool) -> Vec<f32> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2, 5, 5, 3]);
    let (loss, train) = block(&g, x.cast(dtype), channels);
    let session = Session::with_options(&g, gpu.options()).unwrap();
    session.run(g.initializers(), []).unwrap();
    let text = session.explain((loss, train), feed(x)).unwrap();
    for op in ["_FusedBatchNormEx", "_FusedBatchNormGradEx", "_ReluGradSum"] {
        assert!(text.contains(op), "{op}: {text}");
    }
    let options = match fused {
        true => RunOptions::new(),
        // Nothing is fused in a step that checks each value.
        false => RunOptions::new().checked(),
    };
    let mut found = Vec::new();
    for _ in 0..4 {
        let (got, _) = session.step_with((loss, train), feed(x), &options).unwrap();
        found.push(got.scalar::<f32>(0).unwrap());
    }
    for variable in g.variables() {
        let value: Vec<f32> = session.run(variable.value, []).unwrap();
        found.extend(value);
    }
    found
}

#[test]
fn a_fused_batch_norm_trains_as_the_nodes_that_it_stands_for() {
    let Some(gpu) = test_gpu::gpu() else { return };
    // Eight channels of halves are loaded together; five of anything are not. Halves are rounded less often where nodes are
    // fused.
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F16, 1e-2), (DType::BF16, 8e-2)] {
        for channels in [8, 5] {
            let [fused, alone] = [true, false].map(|fused| trained(&gpu, dtype, channels, fused));
            assert_eq!(fused.len(), alone.len());
            for (i, (a, b)) in fused.iter().zip(&alone).enumerate() {
                let near = (a - b).abs() <= tolerance * b.abs().max(1.0);
                assert!(near, "{dtype} {channels}: {i}: {a}, not {b}");
            }
        }
    }
}
