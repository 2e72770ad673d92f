//! An op of a user's crate on a GPU: its launches are those of the crate's CUDA source.

use focal_loss::{FocalLoss, ops};
use thalweg::gradient_check::{GradientCheck, mixed};
use thalweg::prelude::*;
use thalweg_tests::emulated_gpu::Call;
use thalweg_tests::test_gpu;

#[test]
fn an_op_of_a_users_crate_runs_on_a_gpu() {
    let Some(gpu) = test_gpu::gpu() else { return };
    let options = gpu.options().ops(&ops().unwrap());
    let check = GradientCheck::new([mixed(&[37], 1)]).session(options);
    for check in [check.clone(), check.single()] {
        let found = check.run(|g, x| {
            let targets: Vec<f64> = (0..37).map(|i| f64::from(i % 3) / 2.0).collect();
            let targets = g.constant(targets).cast(x[0].dtype());
            vec![FocalLoss::default().of(x[0], targets)]
        });
        found.unwrap();
    }
    let Some(calls) = gpu.calls() else { return };
    for function in ["FocalLoss", "FocalLossGrad"] {
        let launched = |call: &Call| matches!(call, Call::Submit(_, Some(f)) if *f == function);
        assert!(calls.iter().any(launched), "{function} did not run");
    }
}
