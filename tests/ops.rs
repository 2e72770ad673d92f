//! Every op gives what TensorFlow's does, on every runtime.
//!
//! `GOLDEN=Conv2D cargo test --test ops` runs the cases of the ops whose names begin so.

mod support;

use std::collections::BTreeMap;

use support::golden::{cases, difference};
use support::runtime::{Direct, Runtime};
use support::session::{Entry, SessionRuntime};
use thalweg_graph::Tensor;

fn check(runtime: &dyn Runtime) {
    let prefix = std::env::var("GOLDEN").unwrap_or_default();
    let cases = cases(&prefix);
    assert!(!cases.is_empty(), "no case begins with {prefix}");
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for case in &cases {
        let wrong = match runtime.run(case) {
            Err(e) => Some(e),
            Ok(r) => [
                ("output", &r.outputs, &case.outputs),
                ("second run's output", &r.second_run, &case.second_run),
                ("variable", &r.variables_after, &case.variables_after),
            ]
            .into_iter()
            .find_map(|(what, found, expected)| {
                if what == "variable" && expected.is_empty() {
                    return None;
                }
                compare(what, found, expected, case)
            }),
        };
        if let Some(wrong) = wrong {
            failures
                .entry(case.op.clone())
                .or_default()
                .push(format!("{}: {wrong}", case.name));
        }
    }
    let failed: usize = failures.values().map(Vec::len).sum();
    let mut report = format!("{failed} of {} cases fail\n", cases.len());
    for (op, list) in &failures {
        report += &format!("{op}: {}\n", list.len());
        let shown = if prefix.is_empty() { 2 } else { 12 };
        list.iter()
            .take(shown)
            .for_each(|l| report += &format!("    {l}\n"));
    }
    assert!(failures.is_empty(), "{report}");
}

fn compare(
    what: &str,
    found: &[Tensor],
    expected: &[Tensor],
    case: &support::golden::Case,
) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!(
            "{} {what}s in place of {}",
            found.len(),
            expected.len()
        ));
    }
    found
        .iter()
        .zip(expected)
        .enumerate()
        .find_map(|(i, (f, e))| Some(format!("{what} {i}: {}", difference(f, e, case.tolerance)?)))
}

#[test]
fn every_op_gives_what_tensorflow_gives_one_node_at_a_time() {
    check(&Direct::new(2));
}

#[test]
fn every_op_gives_the_same_in_a_session_that_is_fed_everything() {
    check(&SessionRuntime {
        threads: 2,
        optimise: true,
        entry: Entry::Fed,
    });
}

#[test]
fn every_op_gives_the_same_in_a_session_where_shapes_are_known_only_in_the_step() {
    check(&SessionRuntime {
        threads: 1,
        optimise: true,
        entry: Entry::FedUnknown,
    });
}

#[test]
fn every_op_gives_the_same_in_a_session_that_knows_its_host_inputs() {
    for threads in [1, 2] {
        check(&SessionRuntime {
            threads,
            optimise: true,
            entry: Entry::HostConstant,
        });
    }
}

#[test]
fn every_op_gives_the_same_when_it_is_folded() {
    check(&SessionRuntime {
        threads: 1,
        optimise: true,
        entry: Entry::Constant,
    });
}

#[test]
fn every_op_gives_the_same_when_nothing_is_optimised() {
    check(&SessionRuntime {
        threads: 1,
        optimise: false,
        entry: Entry::Constant,
    });
}
