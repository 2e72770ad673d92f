//! Freezing: replaces variables by constants, and keeps only the nodes that some outputs need.
//!
//! A program that only uses a model then needs no session that restores it, and no files beside the
//! graph.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_graphdef::{ImportOptions, freeze, import};
//! use thalweg_ops::{NewGraph, SourceOps, StateOps};
//! use thalweg_session::{Feeding, Session};
//! use thalweg_tensor::{DType, Tensor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let g = Graph::new();
//! let w = g.variable("w", 0.0f32);
//! let y = (g.placeholder("x", DType::F32, []) * w.value()).named("y");
//! let def = freeze(&g, &[y], |variable| {
//!     (variable.name == "w").then(|| Tensor::scalar(4.0f32))
//! })?;
//! // The initializer of the variable is gone.
//! assert!(def.node.iter().all(|n| n.op != "AssignVariableOp"));
//!
//! let g = Graph::new();
//! let model = import(&g, &def, &ImportOptions::default())?;
//! let (x, y) = (model.output("x").ok_or("no x")?, model.output("y").ok_or("no y")?);
//! assert_eq!(Session::new(&g)?.run::<f32>(y, [x.feed(3.0f32)])?, 12.0);
//! # Ok(())
//! # }
//! ```

mod error;
mod nodes;

pub use error::FreezeError;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_graph::flow::with_values;
use thalweg_graph::op::Effect;
use thalweg_graph::{Attr, Function, Graph, GraphData, Node, NodeId, Output, OutputId};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::export::{self, ExportError, ExportOptions, MAX_MESSAGE_BYTES};
use crate::messages::{GraphDef, NodeDef};

/// A variable that becomes a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenVariable {
    /// Its name: that of the graph's declaration, or else of its node.
    pub name: String,
    /// Its handle.
    pub handle: OutputId,
    /// The dtype of its value.
    pub dtype: DType,
    /// Its shape, as far as known.
    pub shape: Shape,
}

/// The nodes and variables that outputs depend on.
struct Needed {
    data: Arc<GraphData>,
    /// By number: `true` if the node is needed.
    keep: Vec<bool>,
    /// The variables, in the order of building.
    variables: Vec<FrozenVariable>,
}

/// The variables that these outputs depend on, in the order of building.
///
/// # Errors
/// [`FreezeError::NoOutput`], [`FreezeError::NoOutputs`], [`FreezeError::Update`],
/// [`FreezeError::Use`].
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_graphdef::freeze::variables_of;
/// use thalweg_ops::{NewGraph, StateOps};
///
/// # fn main() -> Result<(), thalweg_graphdef::FreezeError> {
/// let g = Graph::new();
/// let (a, b) = (g.variable("a", 1.0f32), g.variable("b", 2.0f32));
/// g.variable("other", 3.0f32);
/// let needed = variables_of(&g, &[a.value() + b.value()])?;
/// assert_eq!(needed.iter().map(|v| &*v.name).collect::<Vec<_>>(), ["a", "b"]);
/// # Ok(())
/// # }
/// ```
pub fn variables_of(
    graph: &Graph,
    outputs: &[Output<'_>],
) -> Result<Vec<FrozenVariable>, FreezeError> {
    Ok(needed(graph, outputs)?.variables)
}

/// Converts a graph to a message, with a constant of the same name in place of each variable, and
/// with only the nodes and functions that these outputs need. All nodes keep their names.
///
/// `values` returns the value of a variable: from a session, or from a checkpoint. Constants of
/// TensorFlow's `convert_variables_to_constants` have the same form: a read becomes an `Identity`,
/// a `ResourceGather` a `GatherV2`.
///
/// # Errors
/// See [`FreezeError`]: an output that needs an update of a variable is refused, and so is a graph
/// of more than 2 GB (2,147,483,647 bytes).
pub fn freeze(
    graph: &Graph,
    outputs: &[Output<'_>],
    mut values: impl FnMut(&FrozenVariable) -> Option<Tensor>,
) -> Result<GraphDef, FreezeError> {
    let needed = needed(graph, outputs)?;
    let data = &*needed.data;
    let kept = || data.ids().filter(|id| needed.keep[id.index()]);
    let functions = functions(data, kept());
    let constants = export::constants(kept().map(|id| data.node(id)));
    let bodies = functions.iter().map(|f| &f.body);
    let mut bytes = bodies
        .map(|body| export::constants(body.nodes().map(|(_, n)| n)))
        .fold(constants, usize::saturating_add);
    let mut frozen = BTreeMap::new();
    for variable in &needed.variables {
        let value = values(variable).ok_or_else(|| FreezeError::NoValue {
            variable: variable.name.clone(),
        })?;
        let shape = variable.shape.merge(&value.shape());
        if value.dtype() != variable.dtype || shape.is_none() {
            return Err(FreezeError::Value {
                variable: variable.name.clone(),
                dtype: variable.dtype,
                shape: variable.shape.clone(),
                found_dtype: value.dtype(),
                found_shape: value.shape(),
            });
        }
        // Refused before gigabytes are copied.
        bytes = bytes.saturating_add(value.bytes().len());
        if bytes > MAX_MESSAGE_BYTES {
            return Err(ExportError::TooLarge { bytes }.into());
        }
        frozen.insert(variable.handle, value);
    }
    let names: BTreeSet<&str> = kept().map(|id| &*data.node(id).name).collect();
    let freezer = nodes::Freezer {
        data,
        frozen: &frozen,
        names: &names,
    };
    let mut all: Vec<NodeDef> = Vec::new();
    for id in kept() {
        let proto = export::to_proto(data, data.node(id), &ExportOptions::default())?;
        freezer.freeze(id, proto, &mut all)?;
    }
    Ok(export::finished(all, &functions)?)
}

fn needed(graph: &Graph, outputs: &[Output<'_>]) -> Result<Needed, FreezeError> {
    let data = graph.snapshot();
    if outputs.is_empty() {
        return Err(FreezeError::NoOutputs);
    }
    for output in outputs {
        if !std::ptr::eq(output.graph(), graph) || data.fact(output.id()).is_none() {
            return Err(FreezeError::NoOutput {
                output: output.name(),
            });
        }
    }
    let data = on_values(graph, data, outputs);
    let keep = data.needed(outputs.iter().map(|o| o.id().node), |_| false);
    let declared: BTreeMap<OutputId, &str> = data
        .variables()
        .iter()
        .map(|v| (v.handle, &*v.name))
        .collect();
    let mut variables = Vec::new();
    for id in data.ids().filter(|id| keep[id.index()]) {
        let node = data.node(id);
        if let Some((dtype, shape)) = nodes::variable(&data, id) {
            let handle = OutputId { node: id, index: 0 };
            let name = declared.get(&handle).copied().unwrap_or(&node.name);
            variables.push(FrozenVariable {
                name: name.to_owned(),
                handle,
                dtype,
                shape,
            });
        } else {
            nodes::check(&data, id)?;
        }
    }
    let kept = data.ids().filter(|id| keep[id.index()]);
    for function in functions(&data, kept) {
        let uses = |effect| matches!(effect, Effect::Handle | Effect::Write | Effect::Read);
        let mut body = function.body.nodes();
        if let Some((_, node)) = body.find(|(_, n)| uses(n.op.effect)) {
            return Err(FreezeError::Use {
                node: node.name.clone(),
                op: node.op.name,
                function: Some(function.name.clone()),
            });
        }
    }
    Ok(Needed {
        data,
        keep,
        variables,
    })
}

/// The graph with values of variables in place of their handles wherever functions only read them. What has no such
/// form is refused later.
fn on_values(graph: &Graph, data: Arc<GraphData>, outputs: &[Output<'_>]) -> Arc<GraphData> {
    let is_handle = |input: &OutputId| data.fact(*input).is_some_and(|f| f.variable.is_some());
    let calls = |(_, node): (NodeId, &Arc<Node>)| {
        let mut attrs = node.attrs.iter().map(|(_, attr)| attr);
        attrs.any(|a| matches!(a, Attr::Func(_) | Attr::Funcs(_)))
            && node.inputs.iter().any(is_handle)
    };
    if !data.nodes().any(calls) {
        return data;
    }
    let fetches: Vec<OutputId> = outputs.iter().map(|o| o.id()).collect();
    let find = |name: &str| graph.registry().get(name);
    with_values(&data, &fetches, &find).map_or(data, Arc::new)
}

/// The functions that nodes use, directly or not, by name.
fn functions(data: &GraphData, nodes: impl Iterator<Item = NodeId>) -> Vec<&Arc<Function>> {
    fn names(attr: &Attr) -> Vec<&str> {
        match attr {
            Attr::Func(f) => vec![&f.name],
            Attr::Funcs(all) => all.iter().map(|f| &*f.name).collect(),
            _ => Vec::new(),
        }
    }
    let own = nodes.flat_map(|id| data.node(id).attrs.iter());
    let mut open: Vec<&str> = own.flat_map(|(_, attr)| names(attr)).collect();
    let mut found: BTreeMap<&str, &Arc<Function>> = BTreeMap::new();
    while let Some(name) = open.pop() {
        let Some(function) = data.function(name) else {
            continue;
        };
        if found.insert(&function.name, function).is_some() {
            continue;
        }
        let body = function.body.nodes();
        let inside = body.flat_map(|(_, n)| n.attrs.iter().map(|(_, a)| a));
        let own = function.attrs.iter().map(|(_, a)| a);
        open.extend(inside.chain(own).flat_map(names));
    }
    found.into_values().collect()
}
