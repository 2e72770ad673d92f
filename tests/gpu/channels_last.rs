//! Networks in NCHW, whose images have their channels last on a GPU.

use std::sync::Arc;

use thalweg::layers::losses;
use thalweg::models::{self, Options};
use thalweg::ops::{DataFormat, Padding};
use thalweg::prelude::*;
use thalweg::session::GpuOptions;
use thalweg_tests::test_gpu;

use super::host_nodes::{channels_last, feeds, planned_card};

const NCHW: DataFormat = DataFormat::Nchw;

/// Builds the logits of ten classes for images of 32 x 32 pixels.
type Build = for<'g> fn(Output<'g>, DType) -> Output<'g>;

fn resnet20<'g>(images: Output<'g>, compute: DType) -> Output<'g> {
    let options = Options::new().compute(compute).data_format(NCHW);
    let model = models::find("resnet20", models::Data::Cifar10).unwrap();
    model.build(images.graph(), images, 10, &options).logits
}

/// Branches that are joined, poolings, pads and cuts.
fn branches<'g>(images: Output<'g>, compute: DType) -> Output<'g> {
    let g = images.graph();
    let conv = |x: Output<'g>, [from, to]: [usize; 2]| {
        let values: Vec<f32> = (0..9 * from * to)
            .map(|i| (i as f32 * 0.7).sin() * 0.2)
            .collect();
        let filter = Tensor::new(&[3, 3, from, to], &values).unwrap();
        let filter = g.variable("filter", filter).value().cast(compute);
        x.conv2d(filter, [1, 1], Padding::Same, NCHW)
    };
    let order = g.constant([0i32, 3, 1, 2]);
    let x = images.cast(compute).transpose(order);
    let x = conv(x, [3, 8]).relu();
    let paddings = g.constant([[0i32, 0], [0, 0], [1, 0], [0, 2]]);
    let padded = g.op("Pad").input(x).input(paddings).output();
    let small = padded.max_pool([3, 3], [2, 2], Padding::Valid, NCHW);
    let other = conv(small, [8, 6]).sigmoid();
    let mean = small.avg_pool([3, 3], [1, 1], Padding::Same, NCHW);
    let joined = g.op("ConcatV2").inputs([other, conv(mean, [8, 4]), small]);
    let joined = joined.input(g.constant(1i32)).output();
    let bias = g.variable("bias", vec![0.1f32; 18]).value().cast(compute);
    let x = conv(joined.bias_add(bias, NCHW), [18, 10]);
    let parts = g.op("Split").input(g.constant(1i32)).input(x);
    let parts = parts.attr("num_split", 2i64).build();
    let scaled = parts.output(0) * parts.output(1).tanh();
    let all = g.op("ConcatV2").inputs([scaled, parts.output(1)]);
    let all = all.input(g.constant(-3i32)).output();
    all.reduce_mean(&[2, 3], false).cast(DType::F32)
}

/// A step of training; its images and labels, and the loss.
fn training<'g>(
    g: &'g Graph,
    (build, compute): (Build, DType),
) -> ([Output<'g>; 2], Output<'g>, Operation<'g>) {
    g.set_seed(3);
    let images = g.placeholder("images", DType::F32, [2, 32, 32, 3]);
    let labels = g.placeholder("labels", DType::I32, [2]);
    let loss = losses::sparse_softmax_cross_entropy(labels, build(images, compute)).value();
    (
        [images, labels],
        loss,
        Momentum::new(0.01, 0.9).minimize(loss),
    )
}

/// By convolution of a step: `true` if its images have the channels last.
fn planned_layouts(built: (Build, DType), optimise: bool) -> Vec<bool> {
    let g = Graph::new();
    let (_, _, train) = training(&g, built);
    let card = planned_card();
    let gpu = GpuOptions::driven_by(Arc::new(card.clone()));
    let options = SessionOptions::new().threads(1).gpu(gpu).optimise(optimise);
    let session = Session::with_options(&g, options).unwrap();
    session.gpu_work(train, feeds(&g)).unwrap();
    channels_last(&card)
}

/// The loss of each of three steps of training; as planned, or node by node.
fn losses_of(gpu: &test_gpu::Gpu, built: (Build, DType), planned: bool) -> Vec<f32> {
    let g = Graph::new();
    let ([images, labels], loss, train) = training(&g, built);
    let session = Session::with_options(&g, gpu.options()).unwrap();
    session.run(g.initializers(), []).unwrap();
    let pixels: Vec<f32> = (0..2 * 32 * 32 * 3)
        .map(|i| (i as f32 * 0.37).sin())
        .collect();
    let pixels = Tensor::new(&[2, 32, 32, 3], &pixels).unwrap();
    let feed = [images.feed(pixels), labels.feed([3i32, 7])];
    let options = match planned {
        true => RunOptions::new(),
        // The graph stays as it is in a step that checks each value.
        false => RunOptions::new().checked(),
    };
    let step = |_| {
        let step = session.step_with((loss, train), feed.clone(), &options);
        step.unwrap().0.scalar::<f32>(0).unwrap()
    };
    (0..3).map(step).collect()
}

#[test]
fn networks_in_nchw_train_with_channels_last_as_they_are_built() {
    let Some(gpu) = test_gpu::gpu() else { return };
    let cases: [(&str, Build, DType, f32); 4] = [
        ("resnet20", resnet20, DType::F32, 1e-4),
        ("resnet20", resnet20, DType::F16, 2e-2),
        ("branches", branches, DType::F32, 1e-5),
        ("branches", branches, DType::BF16, 2e-2),
    ];
    for (name, build, compute, tolerance) in cases {
        let layouts = |optimise| planned_layouts((build, compute), optimise);
        let (last, first) = (layouts(true), layouts(false));
        assert!(
            last.len() > 8 && last.iter().all(|&last| last),
            "{name}: {last:?}"
        );
        assert!(!first.contains(&true), "{name}: {first:?}");
        let [planned, built] =
            [true, false].map(|planned| losses_of(&gpu, (build, compute), planned));
        for (a, b) in planned.iter().zip(&built) {
            let near = (a - b).abs() <= tolerance * b.abs();
            assert!(near, "{name} {compute}: {planned:?}, not {built:?}");
        }
    }
}
