//! Random graphs placed over CPUs and logical GPUs of a card or the emulated GPU, compared with the naive interpreter.

use proptest::prelude::*;
use thalweg::graph::OutputId;
use thalweg::prelude::*;
use thalweg::session::Feed;
use thalweg::session::Parallel;
use thalweg::tensor::Tensor;

use super::interpreter::{Interpreter, NoResult};
use super::random_graph::{Gene, RandomModel};
use super::test_gpu::Gpu;

/// Numbers of CPUs and GPUs that graphs are scattered over.
const SESSIONS: [(usize, usize, Parallel); 4] = [
    (1, 1, Parallel::Never),
    (1, 2, Parallel::Never),
    (2, 2, Parallel::Always),
    (2, 1, Parallel::WhereWorth),
];

/// Hash of a name.
fn hash(name: &str) -> usize {
    let step = |h: u32, b: u8| h.wrapping_mul(31) ^ u32::from(b);
    name.bytes().fold(7u32, step) as usize >> 3
}

/// Places each node by a hash of its name; nodes that use a variable are on the variable's device.
fn scatter(node: &thalweg::graph::Node, cpus: usize, gpus: usize) -> Option<DeviceSpec> {
    let with_variable = ["VariableOp", "ResourceApply"];
    if with_variable.iter().any(|op| node.op.name.contains(op)) {
        return None;
    }
    let number = hash(&node.name) % (cpus + gpus);
    let (device, index) = match number.checked_sub(cpus) {
        Some(gpu) => ("GPU", gpu),
        None => ("CPU", number),
    };
    Some(DeviceSpec {
        device_type: Some(device.into()),
        index: Some(index as u32),
        ..DeviceSpec::default()
    })
}

/// Nearly the same: a GPU adds in another order, and has other exponentials.
fn near(a: &Tensor, b: &Tensor) -> bool {
    let (Ok(x), Ok(y)) = (a.as_slice::<f32>(), b.as_slice::<f32>()) else {
        return a == b;
    };
    let element = |(x, y): (&f32, &f32)| {
        let scale = x.abs().max(y.abs()).max(1.0);
        x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-3 * scale
            // Beyond this, rounding differences may have grown too large to compare.
            || scale > 1e12
    };
    a.dims() == b.dims() && x.iter().zip(y).all(element)
}

fn compare(gpu: &Gpu, genes: &[Gene], vague: bool, picks: &[Vec<u8>]) -> Result<(), TestCaseError> {
    for (cpus, gpus, parallel) in SESSIONS {
        let g = Graph::new();
        let scope = DeviceScope::function(move |node| Ok(scatter(node, cpus, gpus)));
        let model = g.device(scope, || RandomModel::new(&g, genes, vague));
        let data = g.snapshot();
        let mut options = SessionOptions::new()
            .cpus(cpus)
            .parallel(parallel)
            .soft_placement(true);
        for _ in 0..gpus {
            options = options.gpu(gpu.device());
        }
        let session = Session::with_options(&g, options).unwrap();
        session.run(g.initializers(), []).unwrap();
        let mut interpreter = Interpreter::new();
        let initial: Vec<_> = g.initializers().iter().map(|n| n.id()).collect();
        interpreter.run(&data, &[], &initial, &[]).unwrap();
        // The third time, commands are captured; after that, they are replayed.
        for pick in picks.iter().flat_map(|p| [p; 4]) {
            let mut fetches: Vec<Output<'_>> = pick.iter().map(|&b| model.value(b).0).collect();
            fetches.extend(model.variables.iter().map(|(v, _)| v.value()));
            let count = model.updates.len();
            let chosen = pick.iter().take(3).filter(|_| count > 0);
            let updates: Vec<Operation<'_>> = chosen
                .map(|&b| model.updates[usize::from(b) % count])
                .collect();
            let values: Vec<(OutputId, Tensor)> = model
                .feeds
                .iter()
                .map(|(o, t)| (o.id(), t.clone()))
                .collect();
            let outputs: Vec<OutputId> = fetches.iter().map(|f| f.id()).collect();
            let targets: Vec<_> = updates.iter().map(|u| u.id()).collect();
            let expected = match interpreter.run(&data, &outputs, &targets, &values) {
                Ok(expected) => expected,
                Err(NoResult::Cycle) => {
                    return Err(TestCaseError::reject("reads and updates in a circle"));
                }
                Err(NoResult::Failed(e)) => return Err(TestCaseError::fail(e)),
            };
            let feeds: Vec<Feed<'_>> = model.feeds.iter().map(|(o, t)| o.feed(t)).collect();
            let got = session.step((&fetches, &updates), &feeds);
            let got = match got {
                Ok(got) => got,
                // A variable cannot follow a node to the host.
                Err(e) if e.to_string().contains("place that on a CPU") => {
                    return Err(TestCaseError::reject("a late update on a GPU"));
                }
                Err(e) => return Err(TestCaseError::fail(format!("{e}\n{}", data.to_text()))),
            };
            for (i, expected) in expected.iter().enumerate() {
                let found = got.tensor(i).unwrap();
                prop_assert!(
                    near(found, expected),
                    "{cpus} CPUs, {gpus} GPUs: {:?} is {found}, not {expected}\n{}",
                    fetches[i],
                    session.explain((&fetches, &updates), &feeds).unwrap()
                );
            }
        }
    }
    Ok(())
}

/// Checks `cases` random graphs.
///
/// # Errors
/// The smallest graph with a difference, and the difference.
pub fn check(gpu: &Gpu, cases: u32) -> Result<(), String> {
    let config = ProptestConfig {
        cases,
        max_shrink_iters: 500,
        max_global_rejects: 4096,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let genes = proptest::collection::vec(any::<Gene>(), 1..40);
    let picks = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..5), 1..6);
    let strategy = (genes, proptest::bool::weighted(0.2), picks);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&strategy, |(genes, vague, picks)| {
        compare(gpu, &genes, vague, &picks)
    });
    result.map_err(|e| e.to_string())
}
