//! Max poolings on GPUs that store the argmax of each window for their gradient.

use thalweg::ops::{DataFormat, Padding};
use thalweg::prelude::*;
use thalweg_tests::test_gpu;

/// Windows, strides and padding: overlapping or not, cut off at the edge, further apart than they are wide.
const WINDOWS: [([usize; 2], [usize; 2], Padding); 4] = [
    ([3, 3], [2, 2], Padding::Same),
    ([2, 2], [2, 2], Padding::Valid),
    ([3, 2], [1, 1], Padding::Same),
    ([2, 2], [3, 3], Padding::Valid),
];

/// Pooled images behind a Relu, and the gradient to the images; fused, or node by node.
fn pooled(
    gpu: &test_gpu::Gpu,
    (images, dtype): (&Tensor, DType),
    format: DataFormat,
    (window, strides, padding): ([usize; 2], [usize; 2], Padding),
    fused: bool,
) -> [Vec<String>; 2] {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, images.dims());
    let y = x
        .cast(dtype)
        .relu()
        .max_pool(window, strides, padding, format);
    let dims = y.shape().to_dims().unwrap();
    let weights: Vec<f32> = (0..dims.iter().product())
        .map(|i| (i as f32 * 0.9).sin())
        .collect();
    let weights = g.constant(Tensor::new(&dims, &weights).unwrap());
    let loss = (y.cast(DType::F32) * weights).sum();
    let dx = gradients(&[loss], &[x])[0].unwrap();
    let fetches = (y.cast(DType::F32), dx);
    let options = gpu.options().optimise(fused);
    let session = Session::with_options(&g, options).unwrap();
    let feed = [x.feed(images.clone())];
    let text = session.explain(fetches, feed.clone()).unwrap();
    for op in ["_MaxPoolStoreArgmax", "_MaxPoolGradStoredArgmax"] {
        assert_eq!(text.contains(op), fused, "{op}: {text}");
    }
    let (got, _) = session
        .step_with(fetches, feed, &RunOptions::new())
        .unwrap();
    // A NaN equals none, and as text all of them.
    [0, 1].map(|i| {
        got.slice::<f32>(i)
            .unwrap()
            .iter()
            .map(|x| x.to_string())
            .collect()
    })
}

#[test]
fn a_pooling_with_stored_argmax_matches_the_nodes_that_it_stands_for() {
    let Some(gpu) = test_gpu::gpu() else { return };
    // Sixteen channels are loaded in whole packs of each dtype; three are not.
    for (channels, dtype) in [
        (16, DType::F32),
        (3, DType::F32),
        (16, DType::F16),
        (16, DType::BF16),
    ] {
        for format in [DataFormat::Nhwc, DataFormat::Nchw] {
            let dims = match format {
                DataFormat::Nhwc => [2, 7, 6, channels],
                DataFormat::Nchw => [2, channels, 7, 6],
            };
            // Rounded, so that windows have more than one largest element; with NaNs, also two in a window.
            let value = |i: usize| match i % 97 {
                11 | 12 => f32::NAN,
                _ => ((i as f32 * 1.3).cos() * 4.0).round(),
            };
            let values: Vec<f32> = (0..2 * 7 * 6 * channels).map(value).collect();
            let images = Tensor::new(&dims, &values).unwrap();
            for windows in WINDOWS {
                let [fused, alone] = [true, false]
                    .map(|fused| pooled(&gpu, (&images, dtype), format, windows, fused));
                assert_eq!(fused, alone, "{dtype} {format:?} {channels} {windows:?}");
            }
        }
    }
}
