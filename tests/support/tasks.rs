//! Steps of random graphs over several tasks, compared with the naive interpreter.

use proptest::prelude::*;
use thalweg::graph::OutputId;
use thalweg::prelude::*;
use thalweg::session::Fetch;
use thalweg::tensor::Tensor;

use super::interpreter::{Interpreter, NoResult};
use super::random_graph::{Gene, RandomModel};

/// The job of the tasks.
pub const JOB: &str = "worker";

/// Runs steps over tasks.
pub trait Tasks {
    /// Runs a step of this graph.
    fn run(
        &self,
        g: &Graph,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
    ) -> Result<Vec<Option<Tensor>>, String>;
}

/// Spreads nodes over tasks and devices by their names; nodes that are colocated with a variable stay with it.
pub fn scope(tasks: u32, cpus: u32) -> DeviceScope {
    DeviceScope::function(move |node| {
        let uses_variable = ["VariableOp", "ResourceApply"];
        if uses_variable.iter().any(|op| node.op.name.contains(op)) {
            return Ok(None);
        }
        let bytes = node.name.bytes();
        let hash = bytes.fold(7u32, |h, b| h.wrapping_mul(31) ^ u32::from(b));
        Ok(Some(DeviceSpec {
            job: Some(JOB.into()),
            task: Some((hash >> 3) % tasks),
            device_type: Some("CPU".into()),
            index: Some((hash >> 7) % cpus),
            ..DeviceSpec::default()
        }))
    })
}

/// Runs steps of a random graph over `tasks` tasks with `cpus` CPUs each, and compares the fetched values with the
/// naive interpreter's.
pub fn compare(
    genes: &[Gene],
    steps: &[[u8; 3]],
    size: (u32, u32),
    tasks: &dyn Tasks,
) -> Result<(), TestCaseError> {
    let g = Graph::new();
    let model = g.device(scope(size.0, size.1), || RandomModel::new(&g, genes, false));
    prop_assert!(g.errors().is_empty(), "{:?}", g.errors());
    let initial: Vec<_> = g.initializers().iter().map(|n| n.id()).collect();
    let runs: Vec<Fetch> = initial.iter().map(|&n| Fetch::Run(n)).collect();
    tasks.run(&g, &runs, &[]).map_err(TestCaseError::fail)?;
    let data = g.snapshot();
    let mut interpreter = Interpreter::new();
    interpreter.run(&data, &[], &initial, &[]).unwrap();
    let feeds: Vec<(OutputId, Tensor)> = model
        .feeds
        .iter()
        .map(|(o, t)| (o.id(), t.clone()))
        .collect();
    for &[a, b, update] in steps {
        let mut outputs = vec![model.value(a).0.id(), model.value(b).0.id()];
        outputs.extend(model.variables.iter().map(|(v, _)| v.value().id()));
        let updates = model.updates.len();
        let targets: Vec<_> = (0..updates.min(2))
            .map(|i| model.updates[(usize::from(update) + i) % updates].id())
            .collect();
        let expected = match interpreter.run(&data, &outputs, &targets, &feeds) {
            Ok(expected) => expected,
            Err(NoResult::Cycle) => return Err(TestCaseError::reject("a circle")),
            Err(NoResult::Failed(e)) => return Err(TestCaseError::fail(e)),
        };
        let mut fetches: Vec<Fetch> = outputs.iter().map(|&o| Fetch::Value(o)).collect();
        fetches.extend(targets.iter().map(|&t| Fetch::Run(t)));
        let found = tasks
            .run(&g, &fetches, &feeds)
            .map_err(TestCaseError::fail)?;
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let found = found.as_ref().map(Tensor::to_string);
            let expected = Some(expected.to_string());
            prop_assert!(
                found == expected,
                "{i}: {found:?}, not {expected:?}\n{}",
                data.to_text()
            );
        }
    }
    Ok(())
}
