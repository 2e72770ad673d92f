//! Initialization of the variables that have no value yet.

use std::collections::BTreeMap;

use thalweg_graph::{Graph, OutputId, VariableInfo};
use thalweg_ops::Variable;
use thalweg_session::{Fetch, RunOptions};

use crate::error::TrainError;
use crate::steps::Steps;

/// Runs the initializers of the declared variables that have no value yet. Returns their names.
///
/// For a program that adds variables to a model with values: a loaded one, or one on servers that another program has
/// trained. An initializer that reads another variable needs that one's value, or its initializer in the same step.
///
/// # Errors
/// [`TrainError::Step`].
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
/// use thalweg_session::Session;
/// use thalweg_train::initialize_missing;
///
/// # fn main() -> Result<(), thalweg_train::TrainError> {
/// let g = Graph::new();
/// let w = g.variable("w", 1.0f32);
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// session.run(w.assign(5.0f32), [])?;
///
/// let head = g.variable("head", 2.0f32);
/// assert_eq!(initialize_missing(&session)?, ["head"]);
/// assert_eq!(session.run::<(f32, f32)>((w, head), [])?, (5.0, 2.0));
/// assert!(initialize_missing(&session)?.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn initialize_missing(session: &dyn Steps) -> Result<Vec<String>, TrainError> {
    let graph = session.graph();
    let all = graph.variables();
    let known = known_tests(graph);
    let tests: Vec<Fetch> = graph.extend(|| {
        let own = |v: &VariableInfo| Variable::of(graph, v);
        let test = |v: &VariableInfo| {
            known
                .get(&v.handle)
                .copied()
                .unwrap_or_else(|| test(graph, own(v)))
        };
        all.iter().map(test).map(Fetch::Value).collect()
    });
    if tests.is_empty() {
        return Ok(Vec::new());
    }
    let (found, _) = session.run_step(&tests, &[], &RunOptions::new())?;
    let has_value = |found: &Option<thalweg_tensor::Tensor>| {
        let value = found.as_ref().and_then(|t| t.to_scalar::<bool>().ok());
        value.unwrap_or(false)
    };
    let missing = all
        .iter()
        .zip(&found)
        .filter(|(_, found)| !has_value(found));
    let missing: Vec<_> = missing.map(|(variable, _)| variable).collect();
    if !missing.is_empty() {
        let run = missing.iter().map(|v| Fetch::Run(v.initializer));
        session.run_step(&run.collect::<Vec<_>>(), &[], &RunOptions::new())?;
    }
    Ok(missing.into_iter().map(|v| v.name.clone()).collect())
}

const TESTS: [&str; 2] = ["VarIsInitializedOp", "IsVariableInitialized"];

/// By handle: a node of the graph that tells if the variable has a value.
fn known_tests(graph: &Graph) -> BTreeMap<OutputId, OutputId> {
    let data = graph.snapshot();
    let tests = data
        .nodes()
        .filter(|(_, n)| TESTS.contains(&n.op.name) && n.controls.is_empty());
    let output = |node| OutputId { node, index: 0 };
    tests
        .filter_map(|(id, n)| Some((*n.inputs.first()?, output(id))))
        .collect()
}

/// Adds a node that tells if a variable has a value.
fn test(graph: &Graph, variable: Variable<'_>) -> OutputId {
    let handle = variable.handle();
    let op = TESTS[usize::from(handle.fact().reference)];
    let build = || graph.op(op).input(handle).output().id();
    let build = || graph.colocate_with(handle, build);
    graph.without_control_dependencies(|| graph.name_scope("/", build))
}
