//! Deep MNIST on a card or the emulated GPU, compared with the CPU.

use thalweg::prelude::DataFormat;
use thalweg_tests::gpu_training::deep_mnist_trains_alike;
use thalweg_tests::test_gpu;

fn check(format: DataFormat) {
    if let Some(gpu) = test_gpu::gpu() {
        deep_mnist_trains_alike(&gpu, format);
    }
}

#[test]
fn deep_mnist_in_nhwc_trains_on_a_gpu_as_on_the_cpu() {
    check(DataFormat::Nhwc);
}

#[test]
fn deep_mnist_in_nchw_trains_on_a_gpu_as_on_the_cpu() {
    check(DataFormat::Nchw);
}
