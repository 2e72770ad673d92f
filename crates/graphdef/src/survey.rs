//! Survey of the ops, dtypes and attributes of a file's graph that Thalweg does not have, made
//! before the import: so that an error lists all of them.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_graphdef::messages::{GraphDef, NodeDef};
//! use thalweg_graphdef::survey::survey;
//! use thalweg_ops::NewGraph;
//!
//! let node = |name: &str, op: &str| NodeDef { name: name.into(), op: op.into(), ..NodeDef::default() };
//! let def = GraphDef {
//!     node: vec![node("a", "NoOp"), node("b", "NoSuchOp"), node("c", "NorThisOne")],
//!     ..GraphDef::default()
//! };
//! let missing = survey(&def, Graph::new().registry());
//! let ops: Vec<&str> = missing.ops.iter().map(|(_, op)| op.as_str()).collect();
//! assert_eq!(ops, ["NoSuchOp", "NorThisOne"]);
//! ```

use std::collections::{BTreeMap, BTreeSet};

use thalweg_graph::{OpDef, Registry};

use crate::dtype;
use crate::messages::attr_value::Value;
use crate::messages::{AttrValue, FunctionDef, GraphDef, NodeDef};
use crate::names;

/// The unsupported parts of a file's graph. A node of a function's body is `function/node`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Nodes, and their ops.
    pub ops: Vec<(String, String)>,
    /// Nodes, and the names of their dtypes.
    pub dtypes: Vec<(String, String)>,
    /// Nodes, and their attributes that may change the result, as `Op.attribute`.
    pub attributes: Vec<(String, String)>,
}

impl Survey {
    /// `true` if nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.dtypes.is_empty() && self.attributes.is_empty()
    }
}

/// The functions of a file, by name; of two of one name the first.
pub(crate) type Library<'d> = BTreeMap<&'d str, &'d FunctionDef>;

pub(crate) fn library(def: &GraphDef) -> Library<'_> {
    let functions = def.library.iter().flat_map(|l| &l.function);
    let mut library = Library::new();
    for function in functions {
        library.entry(function_name(function)).or_insert(function);
    }
    library
}

pub(crate) fn function_name(function: &FunctionDef) -> &str {
    function.signature.as_ref().map_or("", |s| &s.name)
}

/// Surveys a graph and the functions that it uses, directly or not.
pub fn survey(def: &GraphDef, registry: &Registry) -> Survey {
    let library = library(def);
    let mut survey = Survey::default();
    survey.nodes("", &def.node, registry, &library);
    for name in used(def, &library) {
        if let Some(function) = library.get(name) {
            survey.nodes(&format!("{name}/"), &function.node_def, registry, &library);
        }
    }
    survey
}

/// The functions that a graph's nodes use, directly or not.
pub(crate) fn used<'d>(def: &'d GraphDef, library: &Library<'d>) -> BTreeSet<&'d str> {
    let mut found = BTreeSet::new();
    let mut stack: Vec<&NodeDef> = def.node.iter().collect();
    let gradients: BTreeMap<&str, &str> = def
        .library
        .iter()
        .flat_map(|l| &l.gradient)
        .map(|g| (&*g.function_name, &*g.gradient_func))
        .collect();
    while let Some(node) = stack.pop() {
        let mut names = vec![&*node.op];
        node.attr.values().for_each(|a| functions_of(a, &mut names));
        while let Some(name) = names.pop() {
            if let Some((&name, function)) = library.get_key_value(name)
                && found.insert(name)
            {
                stack.extend(&function.node_def);
                names.extend(gradients.get(name));
            }
        }
    }
    found
}

/// The names of the functions in an attribute.
fn functions_of<'d>(attr: &'d AttrValue, names: &mut Vec<&'d str>) {
    let funcs = match &attr.value {
        Some(Value::Func(func)) => std::slice::from_ref(func),
        Some(Value::List(list)) => &list.func[..],
        _ => return,
    };
    for func in funcs {
        names.push(&func.name);
        func.attr.values().for_each(|a| functions_of(a, names));
    }
}

impl Survey {
    fn nodes(
        &mut self,
        prefix: &str,
        nodes: &[NodeDef],
        registry: &Registry,
        library: &Library<'_>,
    ) {
        for node in nodes {
            let name = || format!("{prefix}{}", node.name);
            let op = registry.get(&node.op);
            if op.is_none() {
                let call = match (library.get(&*node.op), &*node.op) {
                    (Some(function), _) => Some(call_op(function)),
                    (None, names::SYMBOLIC_GRADIENT) => Some(names::GRADIENT_CALL),
                    (None, _) => None,
                };
                let missing = match call {
                    Some(call) => Some(call).filter(|op| registry.get(op).is_none()),
                    None => Some(&*node.op),
                };
                self.ops.extend(missing.map(|op| (name(), op.to_owned())));
            }
            let mut numbers = BTreeSet::new();
            for (attr, value) in &node.attr {
                types_of(value, &mut numbers);
                if op.is_some_and(|op| !is_known(op, attr, value)) {
                    self.attributes
                        .push((name(), format!("{}.{attr}", node.op)));
                }
            }
            for number in numbers {
                if dtype::from_number(number).is_err() {
                    self.dtypes.push((name(), dtype::name(number)));
                }
            }
        }
    }
}

/// The op of a call, for a node whose op is a function's name.
pub(crate) fn call_op(function: &FunctionDef) -> &'static str {
    match function.signature.as_ref().is_some_and(|s| s.is_stateful) {
        true => "StatefulPartitionedCall",
        false => "PartitionedCall",
    }
}

/// The dtypes in an attribute.
fn types_of(attr: &AttrValue, numbers: &mut BTreeSet<i32>) {
    match &attr.value {
        Some(Value::Type(t)) => {
            numbers.insert(*t);
        }
        Some(Value::Tensor(t)) => {
            numbers.insert(t.dtype);
        }
        Some(Value::Func(f)) => f.attr.values().for_each(|a| types_of(a, numbers)),
        Some(Value::List(l)) => {
            numbers.extend(&l.r#type);
            numbers.extend(l.tensor.iter().map(|t| t.dtype));
            let attrs = l.func.iter().flat_map(|f| f.attr.values());
            attrs.for_each(|a| types_of(a, numbers));
        }
        _ => {}
    }
}

/// `true` if the op has this attribute, or its value changes nothing.
fn is_known(op: &OpDef, name: &str, value: &AttrValue) -> bool {
    name.starts_with('_') || op.attr(name).is_some() || is_harmless(name, value)
}

/// `true` for attributes that versions of TensorFlow have added to ops or removed from them, if the
/// value means the default behaviour, or if only its own kernels use it.
pub(crate) fn is_harmless(name: &str, value: &AttrValue) -> bool {
    let Some(value) = &value.value else {
        return false;
    };
    match (name, value) {
        // Annotations, the choice of a GPU library, dependencies, the time of an error.
        (
            "debug_name"
            | "use_cudnn_on_gpu"
            | "use_inter_op_parallelism"
            | "use_locking"
            | "validate_indices",
            _,
        ) => true,
        ("grad_a" | "grad_b" | "grad_x" | "grad_y", Value::B(v)) => !v,
        ("incompatible_shape_error", Value::B(v)) => *v,
        ("validate_shape", Value::B(v)) => !v,
        ("explicit_paddings" | "dilations" | "allowed_devices", Value::List(v)) => {
            v.s.is_empty() && v.i.iter().all(|d| *d == 1)
        }
        ("bad_indices_policy" | "container" | "shared_name", Value::S(v)) => v.is_empty(),
        _ => false,
    }
}
