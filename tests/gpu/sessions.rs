//! The op table in sessions with a GPU, a card or the emulated one.

use std::collections::BTreeMap;
use thalweg_tests::emulated_gpu::Call;
use thalweg_tests::golden::cases;
use thalweg_tests::runtime::run_cases;
use thalweg_tests::session::{Entry, SessionRuntime};
use thalweg_tests::test_gpu;

/// Runs the op table in sessions with a GPU; ops without a GPU kernel run on the CPU.
fn check(entry: Entry, libraries: bool) {
    let Some(gpu) = test_gpu::gpu_with(libraries) else {
        return;
    };
    let prefix = std::env::var("GOLDEN").unwrap_or_default();
    let runtime = SessionRuntime {
        threads: 1,
        optimise: false,
        entry,
        gpu: Some(gpu.driver.clone()),
    };
    run_cases(&runtime, &cases(&prefix));
    let Some(calls) = gpu.calls() else { return };
    let mut by_function: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        if let Call::Submit(what, launched) = call {
            *by_function.entry(launched.unwrap_or(what)).or_default() += 1;
        }
    }
    let launches: usize = by_function.values().sum();
    println!("{launches} commands of {} kinds", by_function.len());
    assert!(launches > 0, "nothing ran on the GPU");
    assert_eq!(by_function.contains_key("call a library"), libraries);
}

#[test]
fn every_op_matches_tensorflow_with_a_gpu() {
    check(Entry::HostConstant, false);
}

#[test]
fn every_op_matches_tensorflow_with_late_host_inputs_on_a_gpu() {
    check(Entry::Fed, false);
}

#[test]
fn every_op_matches_tensorflow_with_constants_on_a_gpu() {
    check(Entry::Constant, false);
}

#[test]
fn every_op_matches_tensorflow_with_gpu_libraries() {
    check(Entry::HostConstant, true);
}
