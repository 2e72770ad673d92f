//! Random graphs over CPUs and logical GPUs, compared with the naive interpreter.

use thalweg_tests::emulated_gpu::Call;
use thalweg_tests::scattered_graphs::check;
use thalweg_tests::test_gpu;

#[test]
fn graphs_over_cpus_and_gpus_match_the_naive_interpreter() {
    let Some(gpu) = test_gpu::gpu() else { return };
    check(&gpu, 512).unwrap_or_else(|e| panic!("{e}"));
    let launched = |c: &Call| matches!(c, Call::Submit(_, Some(_)) | Call::Capture(_));
    let Some(calls) = gpu.calls() else { return };
    let launches = calls.iter().filter(|c| launched(c)).count();
    println!("{launches} launches");
    assert!(launches > 2000, "hardly anything ran on a GPU");
}
