//! Every op compared with TensorFlow's, on every runtime.
//!
//! `GOLDEN=Conv2D cargo test -p thalweg-tests --test engine ops::` runs the cases of the ops whose names begin with
//! `Conv2D`.

use std::collections::BTreeSet;

use thalweg_tests::golden::cases;
use thalweg_tests::runtime::{Direct, Runtime, run_cases};
use thalweg_tests::servers::ClusterRuntime;
use thalweg_tests::session::{Entry, SessionRuntime};

fn check(runtime: &dyn Runtime) {
    let prefix = std::env::var("GOLDEN").unwrap_or_default();
    let cases = cases(&prefix);
    assert!(!cases.is_empty(), "no case begins with {prefix}");
    run_cases(runtime, &cases);
}

#[test]
fn every_op_matches_tensorflow_as_a_single_node() {
    check(&Direct::new(2));
}

#[test]
fn every_op_matches_tensorflow_with_all_inputs_fed() {
    check(&SessionRuntime {
        threads: 2,
        optimise: true,
        entry: Entry::Fed,
        gpu: None,
    });
}

#[test]
fn every_op_matches_tensorflow_with_late_shapes() {
    check(&SessionRuntime {
        threads: 1,
        optimise: true,
        entry: Entry::FedUnknown,
        gpu: None,
    });
}

#[test]
fn every_op_matches_tensorflow_with_constant_host_inputs() {
    check(&SessionRuntime {
        threads: 1,
        optimise: true,
        entry: Entry::HostConstant,
        gpu: None,
    });
}

#[test]
fn every_op_matches_tensorflow_when_folded() {
    check(&SessionRuntime {
        threads: 1,
        optimise: true,
        entry: Entry::Constant,
        gpu: None,
    });
}

#[test]
fn every_op_matches_tensorflow_without_optimisation() {
    check(&SessionRuntime {
        threads: 1,
        optimise: false,
        entry: Entry::Constant,
        gpu: None,
    });
}

/// A case takes a session over four tasks, and so one of each op tells what values of its kind meet on the way.
#[test]
fn every_op_matches_tensorflow_over_four_tasks() {
    let prefix = std::env::var("GOLDEN").unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut cases = cases(&prefix);
    cases.retain(|case| seen.insert(case.op.clone()) || !prefix.is_empty());
    run_cases(&ClusterRuntime::new(3), &cases);
}

#[test]
#[ignore = "takes minutes: cargo test -p thalweg-tests --test engine ops:: -- --ignored"]
fn every_case_matches_tensorflow_over_four_tasks() {
    check(&ClusterRuntime::new(3));
}
