//! Sessions on a GPU, emulated: the same graphs give the same results, and a step is what it
//! should be.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use support::emulated::{Emulated, is_there};
use support::emulated_gpu::{Call, EmulatedGpu};
use support::golden::cases;
use support::runtime::report;
use support::session::{Entry, SessionRuntime};

/// The op table by sessions with a GPU, where what it has no kernel for runs on the CPU.
fn check(entry: Entry, libraries: bool) {
    if !is_there() {
        return;
    }
    let kernels = Arc::new(Emulated::new(false));
    let gpu = match libraries {
        true => EmulatedGpu::with_libraries(&kernels),
        false => EmulatedGpu::new(&kernels),
    };
    let prefix = std::env::var("GOLDEN").unwrap_or_default();
    let runtime = SessionRuntime {
        threads: 1,
        optimise: false,
        entry,
        gpu: Some(gpu.clone()),
    };
    report(&runtime, &cases(&prefix));
    let mut by_function: BTreeMap<&str, usize> = BTreeMap::new();
    for call in gpu.calls() {
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
fn every_op_gives_the_same_in_a_session_with_a_gpu() {
    check(Entry::HostConstant, false);
}

#[test]
fn every_op_gives_the_same_where_what_shapes_it_is_known_late_and_so_on_the_host() {
    check(Entry::Fed, false);
}

#[test]
fn every_op_gives_the_same_of_constants_on_a_gpu() {
    check(Entry::Constant, false);
}

#[test]
fn every_op_gives_the_same_where_libraries_compute_products_and_convolutions() {
    check(Entry::HostConstant, true);
}
