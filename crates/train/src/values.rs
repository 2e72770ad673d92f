//! Values of a session's variables: read in one step, and assigned in one step; frozen graphs.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{NewGraph, StateOps};
//! use thalweg_session::Session;
//! use thalweg_tensor::Tensor;
//! use thalweg_train::values::{assign, read};
//!
//! # fn main() -> Result<(), thalweg_train::TrainError> {
//! let g = Graph::new();
//! let (a, b) = (g.variable("a", 1.0f32), g.variable("b", 2.0f32));
//! let session = Session::new(&g)?;
//! let handles = [a.handle().id(), b.handle().id()];
//! assign(&session, handles.into_iter().zip([3.0f32, 4.0].map(Tensor::scalar)))?;
//! assert_eq!(read(&session, &handles)?, [3.0f32, 4.0].map(Tensor::scalar));
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, BTreeSet};

use thalweg_graph::op::Effect;
use thalweg_graph::{DeviceScope, Graph, GraphData, Node, NodeId, Output, OutputId};
use thalweg_graphdef::meta::LOCAL;
use thalweg_graphdef::{FreezeError, GraphDef, freeze::variables_of};
use thalweg_ops::SourceOps;
use thalweg_session::{Fetch, RunOptions};
use thalweg_tensor::{DType, Shape, Tensor};
use thiserror::Error;

use crate::error::{StepFailure, TrainError};
use crate::steps::Steps;

/// Name scope of nodes that are added to read and to assign variables.
const SCOPE: &str = "values";

/// Reads the values of the variables of these handles, in their order, in one step that only reads.
///
/// A variable that no node of the graph reads gets a node that does.
///
/// # Errors
/// [`TrainError::Step`] if a variable has no value.
pub fn read(session: &dyn Steps, handles: &[OutputId]) -> Result<Vec<Tensor>, TrainError> {
    let graph = session.graph();
    let data = graph.snapshot();
    let reads = plain_reads(&data);
    let fetch = |handle: &OutputId| {
        let found = match data.fact(*handle).is_some_and(|f| f.reference) {
            true => Some(*handle),
            false => reads.get(handle).copied(),
        };
        Fetch::Value(found.unwrap_or_else(|| added_read(graph, *handle)))
    };
    let fetches: Vec<Fetch> = handles.iter().map(fetch).collect();
    let (values, _) = session.run_step(&fetches, &[], &RunOptions::new())?;
    Ok(values.into_iter().flatten().collect())
}

/// Assigns values to the variables of these handles, in one step.
///
/// It runs the nodes that initialize the variables, with the values in place of the initial ones. A variable without
/// such a node gets one.
///
/// # Errors
/// [`TrainError::Step`] with a [`ValueError`] if a value does not have the variable's dtype and shape; nothing was
/// assigned then.
pub fn assign(
    session: &dyn Steps,
    values: impl IntoIterator<Item = (OutputId, Tensor)>,
) -> Result<(), TrainError> {
    let graph = session.graph();
    let data = graph.snapshot();
    let declared: BTreeMap<OutputId, NodeId> = data
        .variables()
        .iter()
        .map(|v| (v.handle, v.initializer))
        .collect();
    let mut fed = BTreeSet::new();
    let (mut fetches, mut feeds) = (Vec::new(), Vec::new());
    let values: Vec<(OutputId, Tensor)> = values.into_iter().collect();
    for (handle, value) in &values {
        check(&data, *handle, value).map_err(|e| TrainError::step(StepFailure::Other, e))?;
    }
    for (handle, value) in values {
        let initializer = declared.get(&handle);
        let initial = initializer.and_then(|&n| initial_value(&data, handle, n));
        let (assign, input) = match initial {
            // Two variables may share an initial value.
            Some((node, input)) if fed.insert(input) => (node, input),
            _ => added_assign(graph, handle, &value),
        };
        fetches.push(Fetch::Run(assign));
        feeds.push((input, value));
    }
    if !fetches.is_empty() {
        session.run_step(&fetches, &feeds, &RunOptions::new())?;
    }
    Ok(())
}

/// A value that does not fit its variable.
#[derive(Clone, PartialEq, Error)]
#[error("'{variable}' {}, and is given {found_dtype}{found_shape}", describe(.held))]
pub struct ValueError {
    /// The variable.
    pub variable: String,
    /// Its dtype and shape; `None` if it is no variable.
    pub held: Option<(DType, Shape)>,
    /// The value's dtype.
    pub found_dtype: DType,
    /// The value's shape.
    pub found_shape: Shape,
}

fn describe(held: &Option<(DType, Shape)>) -> String {
    match held {
        Some((dtype, shape)) => format!("is a variable of {dtype}{shape}"),
        None => "is the handle of no variable".to_owned(),
    }
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for ValueError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Checks that a value fits a variable.
fn check(data: &GraphData, handle: OutputId, value: &Tensor) -> Result<(), ValueError> {
    let held = data.fact(handle).and_then(|f| f.variable.clone());
    let fits = held.as_ref().is_some_and(|(dtype, shape)| {
        *dtype == value.dtype() && shape.merge(&value.shape()).is_some()
    });
    match fits {
        true => Ok(()),
        false => Err(ValueError {
            variable: data
                .get(handle.node)
                .map_or_else(String::new, |n| n.name.clone()),
            held,
            found_dtype: value.dtype(),
            found_shape: value.shape(),
        }),
    }
}

/// Reads of variables without control dependencies, by handle.
pub(crate) fn plain_reads(data: &GraphData) -> BTreeMap<OutputId, OutputId> {
    let mut reads = BTreeMap::new();
    for (id, node) in data.nodes() {
        if node.op.name == "ReadVariableOp"
            && node.controls.is_empty()
            && let Some(&handle) = node.inputs.first()
        {
            let read = OutputId { node: id, index: 0 };
            reads.entry(handle).or_insert(read);
        }
    }
    reads
}

/// The node that only assigns a variable's initial value, and the input with that value.
fn initial_value(
    data: &GraphData,
    handle: OutputId,
    initializer: NodeId,
) -> Option<(NodeId, OutputId)> {
    let node = data.get(initializer)?;
    let assigns = ["Assign", "AssignVariableOp"].contains(&node.op.name);
    match node.inputs[..] {
        [to, value] if assigns && to == handle && node.controls.is_empty() => {
            Some((initializer, value))
        }
        _ => None,
    }
}

/// Builds nodes on a variable's device, independent of the scopes of the caller, even if the graph is finalized.
fn colocate<'g, R>(graph: &'g Graph, handle: OutputId, build: impl FnOnce(Output<'g>) -> R) -> R {
    let handle = graph.output(handle);
    let build = || graph.name_scope(SCOPE, || graph.colocate_with(handle, || build(handle)));
    let build = || graph.device(DeviceScope::None, build);
    graph.extend(|| graph.without_control_dependencies(build))
}

fn added_read(graph: &Graph, handle: OutputId) -> OutputId {
    colocate(graph, handle, |handle| {
        let dtype = handle.fact().variable.map(|(dtype, _)| dtype);
        let read = graph.op("ReadVariableOp").input(handle);
        let read = match dtype {
            Some(dtype) => read.attr("dtype", dtype),
            None => read,
        };
        read.output().id()
    })
}

fn added_assign(graph: &Graph, handle: OutputId, value: &Tensor) -> (NodeId, OutputId) {
    colocate(graph, handle, |handle| {
        let shape = handle.fact().variable.map(|(_, shape)| shape);
        let shape = shape.unwrap_or_else(|| value.shape());
        let fed = graph.placeholder("value", value.dtype(), shape);
        let op = match handle.fact().reference {
            true => "Assign",
            false => "AssignVariableOp",
        };
        (graph.op(op).inputs([handle, fed]).build().id(), fed.id())
    })
}

/// Error of freezing a session's graph.
#[derive(Error)]
#[non_exhaustive]
pub enum FreezeSessionError {
    /// The graph cannot be frozen.
    #[error(transparent)]
    Freeze(#[from] FreezeError),
    /// The variables cannot be read.
    #[error(transparent)]
    Step(#[from] TrainError),
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for FreezeSessionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Exports the graph of a session, with the current values of its variables as constants, and with only the nodes that
/// these outputs need; see [`thalweg_graphdef::freeze()`].
///
/// # Errors
/// See [`FreezeSessionError`].
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, StateOps};
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let g = Graph::new();
/// let y = g.variable("w", 3.0f32).value().square();
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// let def = thalweg_train::freeze(&session, &[y])?;
/// assert!(def.node.iter().any(|n| n.name == "w" && n.op == "Const"));
/// # Ok(())
/// # }
/// ```
pub fn freeze(session: &dyn Steps, outputs: &[Output<'_>]) -> Result<GraphDef, FreezeSessionError> {
    let graph = session.graph();
    let needed = variables_of(graph, outputs)?;
    let handles: Vec<OutputId> = needed.iter().map(|v| v.handle).collect();
    let values = read(session, &handles)?;
    let values: BTreeMap<OutputId, Tensor> = handles.into_iter().zip(values).collect();
    Ok(thalweg_graphdef::freeze(graph, outputs, |v| {
        values.get(&v.handle).cloned()
    })?)
}

/// Names of the variables that a graph holds, in its functions too, and neither declares nor lists as local
/// ([`LOCAL`]). A saver of the declared variables would lose their values. A variable that no node writes, and whose reads
/// no node uses, holds nothing: files of Keras have such copies of each variable.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let w = g.op("VarHandleOp").attr("dtype", DType::F32).attr("shape", Shape::from([])).name("w").output();
/// assert!(thalweg_train::values::undeclared(&g).is_empty());
/// g.op("AssignVariableOp").input(w).input(g.constant(1.0f32)).build();
/// assert_eq!(thalweg_train::values::undeclared(&g), ["w"]);
/// ```
pub fn undeclared(graph: &Graph) -> Vec<String> {
    let data = graph.snapshot();
    let local = graph.collection(LOCAL).into_iter().map(|o| o.id());
    let declared = data.variables().iter().map(|v| v.handle).chain(local);
    let declared = declared.filter_map(|handle| data.get(handle.node));
    let declared: BTreeSet<_> = declared.map(|n| stored_name(n)).collect();
    let functions = data.functions().values().map(|f| &f.body);
    let bodies = functions.flat_map(|body| body.nodes());
    let used = used_variables(&data);
    let own = data.nodes().filter(|(id, _)| used.contains(id));
    let nodes = own.chain(bodies).map(|(_, node)| node);
    let names = nodes.filter(|n| holds_variable(n) && !declared.contains(&stored_name(n)));
    let names: BTreeSet<&String> = names.map(|n| &n.name).collect();
    names.into_iter().cloned().collect()
}

/// The handles of variables that nodes write or whose reads nodes use.
pub(crate) fn used_handles(data: &GraphData) -> Vec<OutputId> {
    let used = used_variables(data);
    let own = data
        .nodes()
        .filter(|(id, n)| used.contains(id) && holds_variable(n));
    own.map(|(node, _)| OutputId { node, index: 0 }).collect()
}

/// The nodes whose outputs are inputs of more than reads and tests of a variable that no node uses.
fn used_variables(data: &GraphData) -> BTreeSet<NodeId> {
    const LOOKS: [&str; 3] = [
        "ReadVariableOp",
        "VarIsInitializedOp",
        "IsVariableInitialized",
    ];
    let inputs = |node: &Node| -> Vec<NodeId> {
        let inputs = node.inputs.iter().map(|i| i.node);
        inputs.chain(node.controls.iter().copied()).collect()
    };
    let with_users: BTreeSet<NodeId> = data.nodes().flat_map(|(_, n)| inputs(n)).collect();
    let uses = data
        .nodes()
        .filter(|(id, n)| !LOOKS.contains(&n.op.name) || with_users.contains(id));
    uses.flat_map(|(_, n)| inputs(n)).collect()
}

/// Checks that a graph declares all its variables.
///
/// # Errors
/// [`TrainError::Undeclared`].
pub fn check_declared(graph: &Graph) -> Result<(), TrainError> {
    match undeclared(graph) {
        variables if variables.is_empty() => Ok(()),
        variables => Err(TrainError::Undeclared { variables }),
    }
}

/// Container and name by which a session keeps a variable: handles with the same ones are of one variable.
pub(crate) fn stored_name(node: &Node) -> (&str, &str) {
    let shared = match node.attrs.str("shared_name") {
        "" => &node.name,
        shared => shared,
    };
    (node.attrs.str("container"), shared)
}

fn holds_variable(node: &Node) -> bool {
    let variable = |fact: &thalweg_graph::Fact| fact.variable.is_some();
    node.op.effect == Effect::Handle && node.outputs.first().is_some_and(variable)
}

/// Handles of all variables of a graph, declared or not, in the order of building.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
///
/// let g = Graph::new();
/// let w = g.variable("w", 1.0f32);
/// assert_eq!(thalweg_train::values::handles(&g), [w.handle().id()]);
/// ```
pub fn handles(graph: &Graph) -> Vec<OutputId> {
    let data = graph.snapshot();
    let variables = data.nodes().filter(|(_, node)| holds_variable(node));
    variables
        .map(|(node, _)| OutputId { node, index: 0 })
        .collect()
}
