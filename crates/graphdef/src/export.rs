//! Export of a graph to a GraphDef.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_graphdef::{ExportOptions, export};
//! use thalweg_ops::{MathOps, NewGraph, SourceOps};
//!
//! # fn main() -> Result<(), thalweg_graphdef::ExportError> {
//! let g = Graph::new();
//! let _root = g.constant(9.0f32).sqrt();
//! let def = export(&g, &ExportOptions::default())?;
//! let nodes: Vec<_> = def.node.iter().map(|n| (n.name.as_str(), n.op.as_str())).collect();
//! assert_eq!(nodes, [("Const", "Const"), ("Sqrt", "Sqrt")]);
//! assert_eq!(def.node[1].input, ["Const"]);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;
use thalweg_graph::function::Port;
use thalweg_graph::op::Effect;
use thalweg_graph::{Attr, Function, Graph, GraphData, Node, OutputId};
use thiserror::Error;

use crate::attr;
use crate::dtype;
use crate::error::ValueError;
use crate::messages::attr_value::{ListValue, Value};
use crate::messages::op_def::ArgDef;
use crate::messages::{
    AttrValue, FunctionDef, FunctionDefLibrary, GradientDef, GraphDef, NodeDef, OpDef, VersionDef,
};
use crate::names::GRADIENT;
use crate::shape;

/// The version of the GraphDefs written here: TensorFlow 1.15's.
const PRODUCER: i32 = 134;

/// The attribute of known output shapes; the shapes of a handle are not those of its value.
pub(crate) const OUTPUT_SHAPES: &str = "_output_shapes";

/// The most bytes that a message may have: protobuf's limit.
pub const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

/// Options of [`export`].
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    output_shapes: bool,
}

impl ExportOptions {
    /// The defaults.
    pub fn new() -> ExportOptions {
        ExportOptions::default()
    }

    /// Sets whether the known shapes of nodes' outputs are written (`false`), as `_output_shapes`.
    pub fn output_shapes(self, output_shapes: bool) -> ExportOptions {
        ExportOptions { output_shapes }
    }
}

/// The reason why a graph could not be exported.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// More bytes than a message may have.
    #[error(
        "the graph takes {bytes} bytes as a GraphDef, and a message may have {MAX_MESSAGE_BYTES}: keep large constants outside of it, as variables or feeds"
    )]
    TooLarge {
        /// The number of bytes; a lower bound if the limit was exceeded before all were counted.
        bytes: usize,
    },
    /// An attribute that cannot be stored in a file.
    #[error("node '{node}': attribute {attr}: {value}")]
    Attr {
        /// The node.
        node: String,
        /// The attribute.
        attr: String,
        /// The reason.
        value: ValueError,
    },
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for ExportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Converts a graph to a message: its nodes in the order of building, with every attribute, and its
/// functions.
///
/// # Errors
/// See [`ExportError`].
pub fn export(graph: &Graph, options: &ExportOptions) -> Result<GraphDef, ExportError> {
    export_data(&graph.snapshot(), options)
}

/// As [`export`], for a graph's data.
///
/// # Errors
/// See [`ExportError`].
pub fn export_data(data: &GraphData, options: &ExportOptions) -> Result<GraphDef, ExportError> {
    let functions: Vec<&Arc<Function>> = data.functions().values().collect();
    let bodies = functions.iter().map(|f| &f.body);
    let bytes = bodies
        .chain([data])
        .map(|g| constants(g.nodes().map(|(_, n)| n)))
        .fold(0, usize::saturating_add);
    if bytes > MAX_MESSAGE_BYTES {
        return Err(ExportError::TooLarge { bytes });
    }
    let nodes = data.nodes().map(|(_, n)| to_proto(data, n, options));
    let nodes = nodes.collect::<Result<_, _>>()?;
    finished(nodes, &functions)
}

/// Assembles a message from nodes and functions.
pub(crate) fn finished(
    node: Vec<NodeDef>,
    functions: &[&Arc<Function>],
) -> Result<GraphDef, ExportError> {
    let mut library = FunctionDefLibrary::default();
    for function in functions {
        library.function.push(function_to_proto(function)?);
        if let Some(Attr::Func(gradient)) = gradient(function) {
            library.gradient.push(GradientDef {
                function_name: function.name.clone(),
                gradient_func: gradient.name.clone(),
            });
        }
    }
    let def = GraphDef {
        node,
        library: (!library.function.is_empty()).then_some(library),
        versions: Some(VersionDef {
            producer: PRODUCER,
            ..VersionDef::default()
        }),
        ..GraphDef::default()
    };
    match def.encoded_len() {
        bytes if bytes > MAX_MESSAGE_BYTES => Err(ExportError::TooLarge { bytes }),
        _ => Ok(def),
    }
}

/// Clears the device requests of a graph's nodes and of its functions' nodes: the devices of the
/// cluster that it was made for do not exist on other machines.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_graphdef::export::clear_devices;
/// use thalweg_graphdef::{ExportOptions, export};
/// use thalweg_ops::{NewGraph, SourceOps};
///
/// # fn main() -> Result<(), thalweg_graphdef::ExportError> {
/// let g = Graph::new();
/// g.device("/job:ps/task:3", || g.constant(1.0f32));
/// let mut def = export(&g, &ExportOptions::new())?;
/// clear_devices(&mut def);
/// assert_eq!(def.node[0].device, "");
/// # Ok(())
/// # }
/// ```
pub fn clear_devices(def: &mut GraphDef) {
    let library = def.library.iter_mut();
    let bodies = library
        .flat_map(|l| &mut l.function)
        .map(|f| &mut f.node_def);
    for node in bodies.flatten().chain(&mut def.node) {
        node.device.clear();
    }
}

/// The bytes of constants, which are copied into a message.
pub(crate) fn constants<'a>(nodes: impl Iterator<Item = &'a Arc<Node>>) -> usize {
    let tensors = nodes.flat_map(|n| n.attrs.iter());
    let bytes = tensors.map(|(_, a)| match a {
        Attr::Tensor(t) => t.bytes().len(),
        Attr::Tensors(all) => all.iter().map(|t| t.bytes().len()).sum(),
        _ => 0,
    });
    bytes.fold(0, usize::saturating_add)
}

/// `node` for a first output, `node:1` for the second.
fn graph_input(data: &GraphData, output: OutputId) -> String {
    let name = data.get(output.node).map_or("", |n| &n.name);
    match output.index {
        0 => name.to_owned(),
        index => format!("{name}:{index}"),
    }
}

/// Converts a node of a graph to a message.
pub(crate) fn to_proto(
    data: &GraphData,
    node: &Node,
    options: &ExportOptions,
) -> Result<NodeDef, ExportError> {
    node_to_proto(data, node, &|output| graph_input(data, output), options)
}

fn node_to_proto(
    data: &GraphData,
    node: &Node,
    input: &dyn Fn(OutputId) -> String,
    options: &ExportOptions,
) -> Result<NodeDef, ExportError> {
    let mut attrs: BTreeMap<String, AttrValue> = BTreeMap::new();
    // A loop or branch that gained outputs keeps the list of the file that it came from.
    let stale = |(name, value): &(&str, &Attr)| {
        *name == OUTPUT_SHAPES
            && matches!(value, Attr::Shapes(shapes) if shapes.len() != node.outputs.len())
    };
    for (name, value) in node.attrs.iter().filter(|attr| !stale(attr)) {
        let wrong = |value| ExportError::Attr {
            node: node.name.clone(),
            attr: name.to_owned(),
            value,
        };
        attrs.insert(name.to_owned(), attr::to_proto(value).map_err(wrong)?);
    }
    // TensorFlow's VarHandleOp takes an empty name as a name, which all variables would share.
    let unnamed = |a: &AttrValue| matches!(&a.value, Some(Value::S(name)) if name.is_empty());
    if node.op.name == "VarHandleOp"
        && let Some(shared) = attrs.get_mut("shared_name").filter(|a| unnamed(a))
    {
        shared.value = Some(Value::S(node.name.clone().into_bytes()));
    }
    if !node.colocation.is_empty() {
        let mut class: Vec<Vec<u8>> = match node.attrs.get("_class") {
            Some(Attr::Strs(kept)) => kept.clone(),
            _ => Vec::new(),
        };
        class.extend(
            node.colocation
                .iter()
                .map(|n| format!("loc:@{n}").into_bytes()),
        );
        attrs.insert(
            "_class".to_owned(),
            list(ListValue {
                s: class,
                ..ListValue::default()
            }),
        );
    }
    if options.output_shapes && !node.outputs.is_empty() {
        let shape = node
            .outputs
            .iter()
            .map(|f| shape::to_proto(&f.shape))
            .collect();
        attrs.insert(
            OUTPUT_SHAPES.to_owned(),
            list(ListValue {
                shape,
                ..ListValue::default()
            }),
        );
    }
    let controls = node.controls.iter().filter_map(|&c| data.get(c));
    let inputs = node.inputs.iter().map(|&i| input(i));
    Ok(NodeDef {
        name: node.name.clone(),
        op: node.op.name.to_owned(),
        input: inputs
            .chain(controls.map(|c| format!("^{}", c.name)))
            .collect(),
        device: node.device.to_string(),
        attr: attrs,
        experimental_debug_info: None,
    })
}

fn list(list: ListValue) -> AttrValue {
    AttrValue {
        value: Some(Value::List(list)),
    }
}

/// Converts a function to a message.
///
/// # Errors
/// [`ExportError::Attr`].
pub fn function_to_proto(function: &Function) -> Result<FunctionDef, ExportError> {
    let body = &function.body;
    let is_argument = |n: &Node| n.op.name == thalweg_graph::function::ARGUMENT.name;
    let name = |output: OutputId| body_input(function, output);
    let options = ExportOptions::default();
    let nodes: Vec<&Node> = body
        .nodes()
        .map(|(_, n)| &**n)
        .filter(|n| !is_argument(n))
        .collect();
    let arg = |port: &Port| ArgDef {
        name: port.name.clone(),
        r#type: dtype::to_number(port.dtype),
        ..ArgDef::default()
    };
    let mut attrs = BTreeMap::new();
    for (name, value) in function.attrs.iter().filter(|(n, _)| n != GRADIENT) {
        let wrong = |value| ExportError::Attr {
            node: function.name.clone(),
            attr: name.clone(),
            value,
        };
        attrs.insert(name.clone(), attr::to_proto(value).map_err(wrong)?);
    }
    let control_name = |id| body.get(id).map_or_else(String::new, |n| n.name.clone());
    let controls = function.controls.iter();
    Ok(FunctionDef {
        signature: Some(OpDef {
            name: function.name.clone(),
            input_arg: function.arguments.iter().map(arg).collect(),
            output_arg: function.results.iter().map(arg).collect(),
            control_output: controls.clone().map(|(name, _)| name.clone()).collect(),
            is_stateful: nodes.iter().any(|n| is_stateful(n)),
            ..OpDef::default()
        }),
        node_def: nodes
            .iter()
            .map(|n| node_to_proto(body, n, &name, &options))
            .collect::<Result<_, _>>()?,
        ret: function
            .results
            .iter()
            .zip(&function.outputs)
            .map(|(port, &output)| (port.name.clone(), name(output)))
            .collect(),
        attr: attrs,
        control_ret: controls
            .map(|(name, id)| (name.clone(), control_name(*id)))
            .collect(),
        ..FunctionDef::default()
    })
}

/// `true` if TensorFlow marks a node's op as stateful.
fn is_stateful(node: &Node) -> bool {
    match node.op.effect {
        Effect::Pure | Effect::Control | Effect::Feed | Effect::Flow => false,
        Effect::Random
        | Effect::Handle
        | Effect::Read
        | Effect::Write
        | Effect::Stateful
        | Effect::Blocking
        | Effect::Collective
        | Effect::Send
        | Effect::Recv => node.op.name != "PartitionedCall",
    }
}

/// `argument`, or `node:output_name:index`.
fn body_input(function: &Function, output: OutputId) -> String {
    let Some(node) = function.body.get(output.node) else {
        return String::new();
    };
    // An argument has the name that the signature gives it, whatever the name of its node.
    let argument = function.inputs.iter().position(|n| *n == output.node);
    if let Some(port) = argument.and_then(|at| function.arguments.get(at)) {
        return port.name.clone();
    }
    let mut first = 0;
    for arg in node.op.outputs {
        let repeats = arg.repeats(&node.attrs);
        let index = output.index as usize;
        if index < first + repeats {
            return format!("{}:{}:{}", node.name, arg.name, index - first);
        }
        first += repeats;
    }
    format!("{}:{}:0", node.name, output.index)
}

/// `true` if two functions have the same definition.
pub(crate) fn same_function(a: &Function, b: &Function) -> bool {
    match (function_to_proto(a), function_to_proto(b)) {
        // Compared as bytes, so that a NaN equals itself.
        (Ok(x), Ok(y)) => x.encode_to_vec() == y.encode_to_vec() && gradient(a) == gradient(b),
        _ => false,
    }
}

fn gradient(function: &Function) -> Option<&Attr> {
    let found = function.attrs.iter().find(|(name, _)| name == GRADIENT);
    found.map(|(_, attr)| attr)
}
