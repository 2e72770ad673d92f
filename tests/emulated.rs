//! The GPU's kernels, run on the CPU in three orders of threads, in place and not, give what
//! TensorFlow's kernels give.

mod support;

use std::collections::BTreeMap;
use std::process::Command;

use support::emulated::{Emulated, is_there};
use support::golden::{Case, cases};
use support::runtime::{build, report};
use thalweg_graph::Graph;
use thalweg_ops::NewGraph;

/// The cases of ops that have a kernel for a GPU, for the case's dtypes.
fn on_a_gpu() -> Vec<Case> {
    let prefix = std::env::var("GOLDEN").unwrap_or_default();
    let has_kernel = |case: &Case| {
        let g = Graph::new();
        let id = build(&g, case).id();
        let data = g.snapshot();
        data.get(id)
            .is_some_and(|node| Emulated::kernel(node).is_some())
    };
    cases(&prefix).into_iter().filter(has_kernel).collect()
}

fn check(emulated: &Emulated) {
    let cases = on_a_gpu();
    let mut by_op: BTreeMap<String, usize> = BTreeMap::new();
    cases
        .iter()
        .for_each(|c| *by_op.entry(c.op.clone()).or_default() += 1);
    println!("{} cases of {} ops", cases.len(), by_op.len());
    report(emulated, &cases);
}

#[test]
fn kernels_give_what_tensorflow_gives() {
    if is_there() {
        check(&Emulated::new(false));
    }
}

/// Where AddressSanitizer's library is, by the compiler that links it.
fn sanitizer() -> Option<String> {
    let output = Command::new("g++")
        .arg("-print-file-name=libasan.so")
        .output()
        .ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    // The name alone comes back where there is none.
    path.contains('/').then_some(path)
}

#[test]
fn kernels_touch_no_memory_that_is_not_theirs() {
    // The library has to be there before any memory is: the test runs itself once more with it.
    const INSIDE: &str = "THALWEG_SANITIZED";
    if std::env::var(INSIDE).is_ok() {
        check(&Emulated::new(true));
        return;
    }
    if !is_there() {
        return;
    }
    let Some(library) = sanitizer() else {
        let required = std::env::var("REQUIRE_EMU").is_ok_and(|v| v == "1");
        assert!(!required, "REQUIRE_EMU=1, and there is no libasan");
        println!("SKIPPED: no libasan, so the GPU's kernels are not watched");
        return;
    };
    let name = "kernels_touch_no_memory_that_is_not_theirs";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .env("LD_PRELOAD", library)
        // What the tests themselves leave behind when they end is not at stake.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}\n{text}",
        String::from_utf8_lossy(&output.stdout)
    );
}
