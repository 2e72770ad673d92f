//! `thalweg graph`: describes the graph of a file.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use thalweg_checkpoint::disk;
use thalweg_graphdef::describe::Port;
use thalweg_graphdef::messages::collection_def::Kind;
use thalweg_graphdef::messages::{MetaGraphDef, TensorInfo, tensor_info::Encoding};
use thalweg_graphdef::{Description, describe, dtype, shape};
use thalweg_ops::NewGraph;
use thalweg_tensor::Shape;
use thalweg_tensor::text::counted;

use crate::failure::Failure;
use crate::model::{Loaded, ModelArgs};
use crate::output;
use crate::output_file::check_output_file;
use crate::picture::{NodeTimes, page};
use crate::table::table;
use crate::trace_file;

/// Print the contents of a graph: ops, inputs, outputs, variables, functions, and unsupported parts
#[derive(Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    model: ModelArgs,

    /// Print all of it as JSON
    #[arg(long)]
    json: bool,

    /// Write a page that shows the graph scope by scope, with the attributes of each node; it needs no network
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,

    /// Colour the page by the times of a trace of a step
    #[arg(long, value_name = "TRACE.json", requires = "html")]
    trace: Option<PathBuf>,

    /// Write the graph in Graphviz's language
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,

    /// Fold the scopes in the file of --dot that are N names deep: 1 folds the outermost ones
    #[arg(long, value_name = "N", requires = "dot", value_parser = clap::value_parser!(u16).range(1..))]
    depth: Option<u16>,

    /// Write the graph as text, one line for each node
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
}

impl GraphArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let files = [&self.html, &self.dot, &self.text];
        for path in files.into_iter().flatten() {
            check_output_file(path)?;
        }
        let times = match &self.trace {
            Some(path) => NodeTimes::of_trace(&trace_file::read(path)?),
            None => NodeTimes::default(),
        };
        let mut loaded = self.model.load()?;
        let graph = thalweg_graph::Graph::new();
        let description = describe(&loaded.graph, graph.registry());
        let text = match self.json {
            true => format!("{:#}\n", json(&description, &loaded)),
            false => tables(&description, &loaded),
        };
        output::text(&text)?;
        if files.iter().all(|f| f.is_none()) {
            return Ok(());
        }
        loaded.import(&graph)?;
        let data = graph.snapshot();
        let write =
            |path: &PathBuf, text: String| disk::write(&disk::system(), path, text.as_bytes());
        if let Some(path) = &self.html {
            write(path, page(&loaded.origin, &data, &times))?;
        }
        if let Some(path) = &self.dot {
            let dot = match self.depth {
                Some(depth) => data.folding().to_depth(usize::from(depth)).to_dot(&data),
                None => data.to_dot(),
            };
            write(path, dot)?;
        }
        if let Some(path) = &self.text {
            write(path, data.to_text())?;
        }
        Ok(())
    }
}

fn tables(description: &Description, loaded: &Loaded) -> String {
    let mut text = format!(
        "{}: {}, written by version {}, for readers from version {}\n\n",
        loaded.origin,
        counted(description.nodes, "node"),
        description.producer,
        description.min_consumer
    );
    let pairs = |pairs: &[(String, String)]| -> Vec<Vec<String>> {
        pairs
            .iter()
            .map(|(a, b)| vec![a.clone(), b.clone()])
            .collect()
    };
    if !description.ops.is_empty() {
        let rows = description
            .ops
            .iter()
            .map(|(op, n)| vec![op.clone(), n.to_string()])
            .collect();
        text += &table(&["op", "nodes"], rows, &[1]);
    }
    if !description.inputs.is_empty() {
        let rows = description
            .inputs
            .iter()
            .map(|p| ports(p)[..3].to_vec())
            .collect();
        text += &table(&["input", "dtype", "shape"], rows, &[]);
    }
    if !description.outputs.is_empty() {
        text += &table(
            &["output, which nothing uses", "op"],
            pairs(&description.outputs),
            &[],
        );
    }
    if !description.variables.is_empty() {
        let rows = description.variables.iter().map(ports).collect();
        text += &table(&["variable", "dtype", "shape", "bytes"], rows, &[3]);
        text += &format!("all variables: {} bytes\n\n", total(description));
    }
    if !description.functions.is_empty() {
        let row = |f: &thalweg_graphdef::describe::FunctionSummary| {
            let numbers = [f.arguments, f.results, f.nodes].map(|n| n.to_string());
            [vec![f.name.clone()], numbers.to_vec()].concat()
        };
        let rows = description.functions.iter().map(row).collect();
        text += &table(
            &["function", "arguments", "results", "nodes"],
            rows,
            &[1, 2, 3],
        );
    }
    if let Some(meta) = &loaded.meta {
        text += &describe_meta(meta, loaded);
    }
    for (kind, missing) in [
        ("op that there is none of", &description.missing.ops),
        ("dtype that there is none of", &description.missing.dtypes),
        (
            "attribute that is not known",
            &description.missing.attributes,
        ),
    ] {
        if !missing.is_empty() {
            text += &table(&["node", kind], pairs(missing), &[]);
        }
    }
    text += match description.missing.is_empty() {
        true => "every op is there: it can be run\n",
        false => "it cannot be run: something is missing\n",
    };
    text
}

fn total(description: &Description) -> u64 {
    description
        .variables
        .iter()
        .filter_map(|v| v.bytes)
        .fold(0, u64::saturating_add)
}

fn ports(port: &Port) -> Vec<String> {
    let bytes = port.bytes.map_or("?".to_owned(), |b| b.to_string());
    vec![
        port.name.clone(),
        port.dtype.clone(),
        port.shape.to_string(),
        bytes,
    ]
}

/// Describes a MetaGraph without its graph.
fn describe_meta(meta: &MetaGraphDef, loaded: &Loaded) -> String {
    let mut text = String::new();
    if let Some(info) = &meta.meta_info_def {
        if !info.tensorflow_version.is_empty() {
            text += &format!("written by TensorFlow {}\n", info.tensorflow_version);
        }
        if !info.tags.is_empty() {
            text += &format!("tags: {}\n", info.tags.join(", "));
        }
    }
    let others = loaded.tags.iter().map(|t| format!("[{}]", t.join(", ")));
    if loaded.tags.len() > 1 {
        text += &format!(
            "the model has graphs with tags {}\n",
            others.collect::<Vec<_>>().join(" ")
        );
    }
    text += "\n";
    let rows: Vec<Vec<String>> = meta
        .collection_def
        .iter()
        .map(|(name, c)| {
            let (kind, items) = collection(c.kind.as_ref());
            vec![name.clone(), kind.to_owned(), items.to_string()]
        })
        .collect();
    if !rows.is_empty() {
        text += &table(&["collection", "of", "items"], rows, &[2]);
    }
    let mut rows = Vec::new();
    for (name, signature) in &meta.signature_def {
        for (way, ports) in [("input", &signature.inputs), ("output", &signature.outputs)] {
            for (port, info) in ports {
                let (tensor, dtype, shape) = tensor(info);
                rows.push(vec![
                    name.clone(),
                    format!("{way} {port}"),
                    tensor,
                    dtype,
                    shape,
                ]);
            }
        }
    }
    if !rows.is_empty() {
        text += &table(&["signature", "", "output", "dtype", "shape"], rows, &[]);
    }
    if let Some(saver) = &meta.saver_def {
        text += &format!(
            "saved by {}, restored by {}, with the file's name in {}\n\n",
            saver.save_tensor_name, saver.restore_op_name, saver.filename_tensor_name
        );
    }
    text
}

fn collection(kind: Option<&Kind>) -> (&'static str, usize) {
    match kind {
        Some(Kind::NodeList(l)) => ("nodes", l.value.len()),
        Some(Kind::BytesList(l)) => ("messages", l.value.len()),
        Some(Kind::Int64List(l)) => ("integers", l.value.len()),
        Some(Kind::FloatList(l)) => ("floats", l.value.len()),
        Some(Kind::AnyList(l)) => ("messages of any kind", l.value.len()),
        None => ("nothing", 0),
    }
}

fn tensor(info: &TensorInfo) -> (String, String, String) {
    let name = match &info.encoding {
        Some(Encoding::Name(name)) => name.clone(),
        Some(Encoding::CooSparse(sparse)) => format!("sparse {}", sparse.values_tensor_name),
        None => String::new(),
    };
    let known = info.tensor_shape.as_ref().map(shape::from_proto);
    let shape = known.and_then(Result::ok).unwrap_or(Shape::unknown());
    let named = dtype::from_number(info.dtype).map(|d| d.name().to_owned());
    (
        name,
        named.unwrap_or_else(|_| dtype::name(info.dtype)),
        shape.to_string(),
    )
}

fn json(description: &Description, loaded: &Loaded) -> Value {
    let dims = |shape: &Shape| match shape.dims() {
        None => Value::Null,
        Some(dims) => dims
            .iter()
            .map(|d| d.map_or(json!(-1), |d| json!(d)))
            .collect(),
    };
    let port = |p: &Port| json!({"name": p.name, "dtype": p.dtype, "shape": dims(&p.shape), "bytes": p.bytes});
    let ports = |all: &[Port]| all.iter().map(port).collect::<Vec<_>>();
    let pairs = |all: &[(String, String)], key: &str| -> Vec<Value> {
        all.iter()
            .map(|(node, v)| json!({"node": node, key: v}))
            .collect()
    };
    let mut all = json!({
        "file": loaded.origin,
        "nodes": description.nodes,
        "versions": {"producer": description.producer, "min_consumer": description.min_consumer},
        "ops": description.ops.iter().map(|(op, n)| json!({"op": op, "nodes": n})).collect::<Vec<_>>(),
        "inputs": ports(&description.inputs),
        "outputs": pairs(&description.outputs, "op"),
        "variables": ports(&description.variables),
        "variable_bytes": total(description),
        "functions": description.functions.iter().map(|f| json!({
            "name": f.name, "arguments": f.arguments, "results": f.results, "nodes": f.nodes,
        })).collect::<Vec<_>>(),
        "unsupported": {
            "ops": pairs(&description.missing.ops, "op"),
            "dtypes": pairs(&description.missing.dtypes, "dtype"),
            "attributes": pairs(&description.missing.attributes, "attribute"),
        },
    });
    if let Some(meta) = &loaded.meta {
        let info = |i: &TensorInfo| {
            let (name, dtype, shape) = tensor(i);
            json!({"name": name, "dtype": dtype, "shape": shape})
        };
        let named = |ports: &std::collections::BTreeMap<String, TensorInfo>| -> Value {
            ports
                .iter()
                .map(|(n, i)| (n.clone(), info(i)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let collections = meta.collection_def.iter().map(|(name, c)| {
            let (kind, items) = collection(c.kind.as_ref());
            json!({"name": name, "of": kind, "items": items})
        });
        all["tags"] = json!(
            meta.meta_info_def
                .iter()
                .flat_map(|i| &i.tags)
                .collect::<Vec<_>>()
        );
        all["graphs"] = json!(loaded.tags);
        all["collections"] = collections.collect();
        all["signatures"] = meta
            .signature_def
            .iter()
            .map(|(name, s)| {
                json!({"name": name, "method": s.method_name, "inputs": named(&s.inputs), "outputs": named(&s.outputs)})
            })
            .collect();
    }
    all
}
