//! The graphs that inputs mutate: cases of the op table as graphs, and the golden graphs.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::LazyLock;

use prost::Message;
use thalweg_graph::op::OpDef;
use thalweg_graph::{Attr, Registry};
use thalweg_graphdef::messages::attr_value::Value;
use thalweg_graphdef::messages::{AttrValue, NodeDef, TensorShapeProto};
use thalweg_graphdef::{GraphDef, attr, shape};
use thalweg_tensor::{DType, Shape, Tensor};

use super::follow::{follow, outputs};
use super::values::{read, small, written};
use crate::golden::{Case, Input, case, texts};
use crate::root;

/// Larger graphs take too long.
const MAX_GRAPH_BYTES: usize = 100 << 10;

/// A graph with its feeds and the fetches of its steps.
#[derive(Clone, Default)]
pub struct Base {
    pub def: GraphDef,
    /// Nodes that run first, such as initializers.
    pub inits: Vec<String>,
    /// Fetches of each step: outputs (`node:1`) and nodes.
    pub steps: Vec<Vec<String>>,
    pub feeds: BTreeMap<String, Tensor>,
}

/// All base graphs, by number.
pub struct Bases {
    /// Cases by op, as JSON text.
    cases: Vec<(String, Vec<String>)>,
    graphs: Vec<(String, Base)>,
}

pub static BASES: LazyLock<Bases> = LazyLock::new(Bases::read);

impl Bases {
    fn read() -> Bases {
        let mut cases: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for text in texts("ops.jsonl.gz") {
            let op = text
                .split("\"op\":")
                .nth(1)
                .and_then(|t| t.split('"').nth(1));
            cases
                .entry(op.unwrap_or_default().to_owned())
                .or_default()
                .push(text);
        }
        Bases {
            cases: cases.into_iter().collect(),
            graphs: graphs(),
        }
    }

    /// Number of bases; the cases of an op count as one.
    pub fn count(&self) -> usize {
        self.cases.len() + self.graphs.len()
    }

    /// Name of a base: an op, or a golden graph.
    pub fn name(&self, number: usize) -> &str {
        match self.cases.get(number) {
            Some((op, _)) => op,
            None => &self.graphs[number - self.cases.len()].0,
        }
    }

    /// Number of cases of a base.
    pub fn cases(&self, number: usize) -> usize {
        self.cases.get(number).map_or(1, |(_, all)| all.len())
    }

    /// Makes a base. In an op's case, input `i` is fed where bit `i` of `fed` is set; its placeholder has no known
    /// shape where that bit of `unknown` is set.
    pub fn get(
        &self,
        number: usize,
        which: usize,
        fed: u8,
        unknown: u8,
        registry: &Registry,
    ) -> Base {
        let number = number % self.count();
        match self.cases.get(number) {
            Some((_, all)) => {
                let text = &all[which % all.len()];
                let json = serde_json::from_str(text).expect("the table has been read before");
                of_case(&case(&json), fed, unknown, registry)
            }
            None => self.graphs[number - self.cases.len()].1.clone(),
        }
    }
}

pub fn of(attr: &Attr) -> AttrValue {
    attr::to_proto(attr).unwrap_or_default()
}

pub fn node(name: &str, op: &str, input: &[&str], attrs: &[(&str, Attr)]) -> NodeDef {
    NodeDef {
        name: name.to_owned(),
        op: op.to_owned(),
        input: input.iter().map(|&i| i.to_owned()).collect(),
        attr: attrs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), of(value)))
            .collect(),
        ..NodeDef::default()
    }
}

/// A node whose value is the tensor.
pub fn constant(name: &str, t: &Tensor) -> NodeDef {
    let attrs = [
        ("dtype", Attr::Type(t.dtype())),
        ("value", Attr::Tensor(t.clone())),
    ];
    node(name, "Const", &[], &attrs)
}

fn of_case(case: &Case, fed: u8, unknown: u8, registry: &Registry) -> Base {
    let mut base = Base::default();
    let nodes = &mut base.def.node;
    let mut dtypes = Vec::new();
    for (i, input) in case.inputs.iter().enumerate() {
        let name = format!("input_{i}");
        let bit = |mask: u8| mask.checked_shr(i as u32).unwrap_or(0) & 1 == 1;
        match input {
            Input::Tensor(t) if bit(fed) => {
                let shape = if bit(unknown) {
                    Shape::unknown()
                } else {
                    t.shape()
                };
                let attrs = [
                    ("dtype", Attr::Type(t.dtype())),
                    ("shape", Attr::Shape(shape)),
                ];
                nodes.push(node(&name, "Placeholder", &[], &attrs));
                base.feeds.insert(name, t.clone());
                dtypes.push(t.dtype());
            }
            Input::Tensor(t) => {
                nodes.push(constant(&name, t));
                dtypes.push(t.dtype());
            }
            Input::Variable(dtype, dims, value) => {
                let shape = Attr::Shape(Shape::known(dims));
                let attrs = [
                    ("dtype", Attr::Type(*dtype)),
                    ("shape", shape),
                    ("shared_name", name.as_str().into()),
                ];
                nodes.push(node(&name, "VarHandleOp", &[], &attrs));
                dtypes.push(DType::Resource);
                if let Some(value) = value {
                    let (initial, assign) = (format!("initial_{i}"), format!("assign_{i}"));
                    nodes.push(constant(&initial, value));
                    let attrs = [("dtype", Attr::Type(*dtype))];
                    nodes.push(node(
                        &assign,
                        "AssignVariableOp",
                        &[&name, &initial],
                        &attrs,
                    ));
                    base.inits.push(assign);
                }
            }
        }
    }
    let Some(def) = registry.get(&case.op) else {
        return base;
    };
    let mut last = node("case", &case.op, &[], &[]);
    last.input = (0..dtypes.len()).map(|i| format!("input_{i}")).collect();
    follow(def, &dtypes, &mut last);
    let known = case
        .attrs
        .iter()
        .filter(|(name, _)| def.attr(name).is_some());
    last.attr
        .extend(known.map(|(name, value)| (name.clone(), of(value))));
    base.steps = vec![fetches_of(&last, def); 2];
    nodes.push(last);
    base
}

/// Fetches of a node: its outputs, or the node itself where it has none.
pub fn fetches_of(node: &NodeDef, def: &OpDef) -> Vec<String> {
    match outputs(def, node).len() {
        0 => vec![node.name.clone()],
        n => (0..n).map(|i| format!("{}:{i}", node.name)).collect(),
    }
}

fn graphs() -> Vec<(String, Base)> {
    let folder = root().join("tests/golden/graphs");
    let files = std::fs::read_dir(&folder).expect("the golden graphs are there");
    let names = files.filter_map(|f| f.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter_map(|f| f.strip_suffix(".pb.gz").map(str::to_owned))
        .collect();
    names.sort();
    let read = |name: String| {
        let file = std::fs::File::open(folder.join(format!("{name}.pb.gz"))).ok()?;
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(file)
            .read_to_end(&mut bytes)
            .ok()?;
        let def = GraphDef::decode(&bytes[..])
            .ok()
            .filter(|_| bytes.len() <= MAX_GRAPH_BYTES)?;
        let json = std::fs::read(folder.join(format!("{name}.json"))).ok()?;
        let json: serde_json::Value = serde_json::from_slice(&json).ok()?;
        Some((name, of_graph(def, &json)))
    };
    names.into_iter().filter_map(read).collect()
}

/// A golden graph with the first of its steps, and small numbers as feeds.
fn of_graph(def: GraphDef, json: &serde_json::Value) -> Base {
    let strings = |list: &serde_json::Value| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items
            .filter_map(|s| s.as_str().map(str::to_owned))
            .collect()
    };
    let steps = json["steps"].as_array().into_iter().flatten().take(4);
    let steps = steps
        .map(|s| [strings(&s["fetches"]), strings(&s["targets"])].concat())
        .collect();
    let mut feeds = BTreeMap::new();
    for node in def.node.iter().filter(|n| n.op == "Placeholder") {
        let dtype = match node.attr.get("dtype").and_then(|a| a.value.as_ref()) {
            Some(Value::Type(number)) => thalweg_graphdef::dtype::from_number(*number).ok(),
            _ => None,
        };
        let dims = match node.attr.get("shape").and_then(|a| a.value.as_ref()) {
            Some(Value::Shape(shape)) => known(shape),
            _ => Vec::new(),
        };
        if let Some(t) = dtype.and_then(|dtype| small(dtype, &dims, 1)) {
            feeds.insert(node.name.clone(), t);
        }
    }
    Base {
        inits: strings(&json["inits"]),
        def,
        steps,
        feeds,
    }
}

/// Dimensions of a shape, with 2 for unknown ones.
fn known(proto: &TensorShapeProto) -> Vec<usize> {
    let shape = shape::from_proto(proto).unwrap_or(Shape::unknown());
    let dims = shape
        .dims()
        .map(|dims| dims.iter().map(|d| d.unwrap_or(2)).collect());
    dims.unwrap_or_default()
}

/// The value of a constant node; `None` for other nodes.
pub fn value_of(node: &NodeDef) -> Option<Tensor> {
    match node.attr.get("value")?.value.as_ref()? {
        Value::Tensor(proto) => read(proto),
        _ => None,
    }
}

/// Replaces the value of a constant.
pub fn set_value(node: &mut NodeDef, t: &Tensor) {
    if let Some(proto) = written(t) {
        node.attr.insert(
            "value".to_owned(),
            AttrValue {
                value: Some(Value::Tensor(proto)),
            },
        );
    }
}
