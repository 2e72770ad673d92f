//! Description of a graph from its message alone, so that it also works for graphs that cannot be
//! imported.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_graphdef::{ExportOptions, describe, export};
//! use thalweg_ops::{MathOps, NewGraph, SourceOps};
//! use thalweg_tensor::DType;
//!
//! # fn main() -> Result<(), thalweg_graphdef::ExportError> {
//! let g = Graph::new();
//! let _y = g.placeholder("x", DType::F32, [-1, 4]).exp();
//! let def = export(&g, &ExportOptions::default())?;
//!
//! let found = describe(&def, g.registry());
//! assert_eq!((found.nodes, found.inputs[0].name.as_str()), (2, "x"));
//! assert_eq!(found.outputs, [("Exp".to_owned(), "Exp".to_owned())]);
//! // Every op in it can run here.
//! assert!(found.missing.is_empty());
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, BTreeSet};

use thalweg_graph::Registry;
use thalweg_tensor::{DType, Shape};

use crate::messages::attr_value::Value;
use crate::messages::{GraphDef, NodeDef};
use crate::names;
use crate::survey::{Survey, function_name, survey};
use crate::{dtype, shape};

/// An input or variable: a node with a dtype and a shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// The node.
    pub name: String,
    /// Its dtype: this engine's name, or else TensorFlow's.
    pub dtype: String,
    /// Its shape, as far as known.
    pub shape: Shape,
    /// Its size in bytes, if the shape is fully known.
    pub bytes: Option<u64>,
}

/// A function of a graph's library.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSummary {
    /// Its name.
    pub name: String,
    /// The number of arguments.
    pub arguments: usize,
    /// The number of results.
    pub results: usize,
    /// The number of nodes of its body.
    pub nodes: usize,
}

/// The description of a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// The number of nodes, without those of functions.
    pub nodes: usize,
    /// The number of nodes of each op, without those of functions; the most frequent first.
    pub ops: Vec<(String, usize)>,
    /// The placeholders.
    pub inputs: Vec<Port>,
    /// The nodes without consumers, with their ops.
    pub outputs: Vec<(String, String)>,
    /// The variables.
    pub variables: Vec<Port>,
    /// The functions.
    pub functions: Vec<FunctionSummary>,
    /// The ops, dtypes and attributes that Thalweg does not have.
    pub missing: Survey,
    /// The version of the program that wrote the file.
    pub producer: i32,
    /// The lowest version that may read it.
    pub min_consumer: i32,
}

/// Describes a graph; `registry` determines which of its ops and attributes Thalweg has.
pub fn describe(def: &GraphDef, registry: &Registry) -> Description {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for node in &def.node {
        *counts.entry(&node.op).or_default() += 1;
        for input in &node.input {
            let input = input.strip_prefix('^').unwrap_or(input);
            used.insert(names::output(input).map_or(input, |(name, _)| name));
        }
    }
    let mut ops: Vec<(String, usize)> = counts
        .into_iter()
        .map(|(op, n)| (op.to_owned(), n))
        .collect();
    ops.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let of = |ops: &'static [&str]| def.node.iter().filter(move |n| ops.contains(&&*n.op));
    let unused = def.node.iter().filter(|n| !used.contains(&*n.name));
    let functions = def.library.iter().flat_map(|l| &l.function);
    let versions = def.versions.clone().unwrap_or_default();
    Description {
        nodes: def.node.len(),
        ops,
        inputs: of(&["Placeholder", "PlaceholderV2", "PlaceholderWithDefault"])
            .map(port)
            .collect(),
        outputs: unused.map(|n| (n.name.clone(), n.op.clone())).collect(),
        variables: of(&["VarHandleOp", "VariableV2", "Variable"])
            .map(port)
            .collect(),
        functions: functions
            .map(|f| FunctionSummary {
                name: function_name(f).to_owned(),
                arguments: f.signature.as_ref().map_or(0, |s| s.input_arg.len()),
                results: f.signature.as_ref().map_or(0, |s| s.output_arg.len()),
                nodes: f.node_def.len(),
            })
            .collect(),
        missing: survey(def, registry),
        producer: versions.producer,
        min_consumer: versions.min_consumer,
    }
}

fn port(node: &NodeDef) -> Port {
    let attr = |name: &str| node.attr.get(name).and_then(|a| a.value.as_ref());
    let number = match attr("dtype") {
        Some(Value::Type(number)) => *number,
        _ => 0,
    };
    let known = dtype::from_number(number).ok();
    let shape = match attr("shape") {
        Some(Value::Shape(proto)) => shape::from_proto(proto).unwrap_or_default(),
        _ => Shape::unknown(),
    };
    let elements = shape.elements().and_then(|n| u64::try_from(n).ok());
    let size = known.map(DType::size).filter(|&s| s > 0);
    Port {
        name: node.name.clone(),
        dtype: known.map_or_else(|| dtype::name(number), |d| d.name().to_owned()),
        bytes: elements
            .zip(size)
            .and_then(|(n, s)| n.checked_mul(s as u64)),
        shape,
    }
}
