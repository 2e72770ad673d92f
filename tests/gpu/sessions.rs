//! The op table in sessions with a GPU, a card or the emulated one.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_device::{Body, Op};
use thalweg_tests::emulated_gpu::Call;
use thalweg_tests::golden::{Case, cases};
use thalweg_tests::runtime::run_cases;
use thalweg_tests::session::{Entry, SessionRuntime};
use thalweg_tests::test_gpu;

/// Ops that a pass over the op table takes.
#[derive(Clone, Copy)]
enum Ops {
    /// All; those without a GPU kernel run on the CPU.
    All,
    /// Those with a kernel that launches on a GPU.
    Launched,
    /// Products and convolutions, which CUDA's libraries compute too.
    OfLibraries,
}

impl Ops {
    fn cases(self) -> Vec<Case> {
        let mut cases = cases(&std::env::var("GOLDEN").unwrap_or_default());
        let launched = |op: &Op| {
            let mut kernels = op.kernels.iter();
            kernels.any(|k| matches!(k.body, Body::Launch(_) | Body::Functions))
        };
        let launched: BTreeSet<&str> = thalweg_ops::ops()
            .filter(|op| launched(op))
            .map(|op| op.def.name)
            .collect();
        cases.retain(|case| match self {
            Ops::All => true,
            Ops::Launched => launched.contains(case.op.as_str()),
            Ops::OfLibraries => case.op.contains("MatMul") || case.op.contains("Conv"),
        });
        cases
    }
}

/// Runs the op table in sessions with a GPU.
fn check(entry: Entry, libraries: bool, ops: Ops) {
    let Some(gpu) = test_gpu::gpu_with(libraries) else {
        return;
    };
    let runtime = SessionRuntime {
        threads: 1,
        optimise: false,
        entry,
        gpu: Some(gpu.driver.clone()),
    };
    run_cases(&runtime, &ops.cases());
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
    check(Entry::HostConstant, false, Ops::All);
}

#[test]
fn every_gpu_op_matches_tensorflow_with_late_host_inputs() {
    check(Entry::Fed, false, Ops::Launched);
}

#[test]
fn every_gpu_op_matches_tensorflow_with_constants() {
    check(Entry::Constant, false, Ops::Launched);
}

#[test]
fn products_and_convolutions_match_tensorflow_with_gpu_libraries() {
    check(Entry::HostConstant, true, Ops::OfLibraries);
}
