//! Parts of the op table: sessions with the card compared with TensorFlow's results.

use std::collections::BTreeSet;

use serde_json::json;
use thalweg_tests::emulated::{Checks, Emulated};
use thalweg_tests::golden::{Case, cases};
use thalweg_tests::runtime::failure_of;
use thalweg_tests::session::{Entry, SessionRuntime};

use crate::bench::Bench;
use crate::units::UnitResult;

/// Prefixes of the names of ops in convolutional networks and their training.
const NETWORKS: &[&str] = &[
    "Conv2D",
    "DepthwiseConv2d",
    "MatMul",
    "BiasAdd",
    "FusedBatchNorm",
    "MaxPool",
    "AvgPool",
    "Relu",
    "Softmax",
    "SparseSoftmax",
    "LRN",
    "Concat",
    "ResourceApply",
    "AddV2",
    "AddN",
    "Mean",
    "Pad",
];

/// Form of the inputs, and `true` for libraries.
type InputsAndLibraries = (Entry, bool);

/// The ways of the brief table.
pub const BRIEF: [InputsAndLibraries; 2] =
    [(Entry::HostConstant, true), (Entry::HostConstant, false)];

/// The ways of the full table.
pub const FULL: [InputsAndLibraries; 4] = [
    (Entry::HostConstant, true),
    (Entry::HostConstant, false),
    (Entry::Fed, false),
    (Entry::Constant, false),
];

/// The ops that have a kernel for a GPU in some case.
pub fn all() -> Vec<String> {
    let emulated = Emulated::new(Checks::None);
    let cases = cases("");
    let launches = |c: &&_| emulated.functions(c).is_ok_and(|f| !f.is_empty());
    let ops: BTreeSet<&str> = cases.iter().filter(launches).map(|c| &c.op[..]).collect();
    ops.into_iter().map(str::to_owned).collect()
}

/// The ops of convolutional networks.
pub fn of_networks() -> Vec<String> {
    let is = |op: &String| NETWORKS.iter().any(|start| op.starts_with(start));
    all().into_iter().filter(is).collect()
}

/// Runs all cases of an op in these ways.
pub fn run(bench: &mut Bench, op: &str, ways: &[InputsAndLibraries]) -> UnitResult {
    let table = bench.cases();
    let most = bench.by_scale(usize::MAX, 4);
    let all: Vec<&Case> = table
        .iter()
        .filter(|case| case.op == op)
        .take(most)
        .collect();
    if all.is_empty() {
        return Err(format!("the op table has no {op}").into());
    }
    let mut failures = Vec::new();
    for &(entry, libraries) in ways {
        let runtime = SessionRuntime {
            threads: 1,
            optimise: false,
            entry,
            gpu: Some(bench.gpu(libraries)?.driver),
        };
        for &case in &all {
            // The log of a process that died then names the case.
            eprintln!("{}, {entry:?}, libraries: {libraries}", case.name);
            if let Some(wrong) = failure_of(&runtime, case) {
                failures.push(format!(
                    "{}, {entry:?}, libraries: {libraries}: {wrong}",
                    case.name
                ));
            }
        }
    }
    match failures.is_empty() {
        true => Ok(json!({"cases": all.len() * ways.len()})),
        false => Err(format!("{} fail\n{}", failures.len(), failures.join("\n")).into()),
    }
}
