//! HTML page of a graph, folded by scope.

mod layout;
mod svg;
mod times;

use serde_json::{Map, Value, json};
use thalweg_graph::{FoldedGraph, GraphData, Node};
use thalweg_tensor::text::{counted, grouped};

use crate::html;
use crate::html::escaped;
use svg::{MAX_BOXES, draw};
pub(crate) use times::NodeTimes;

/// The page without its views and data.
const PAGE: &str = include_str!("page.html");

/// A page that shows one scope at a time, needs no network, and has the attributes of each node. With times, boxes are
/// coloured by them.
pub(crate) fn page(title: &str, data: &GraphData, times: &NodeTimes) -> String {
    let mut views = String::new();
    let folding = data.folding();
    let scopes = folding.scopes();
    for scope in std::iter::once("").chain(scopes.iter().copied()) {
        let folded = folding.scope(scope);
        let picture = match folded.boxes.len() > MAX_BOXES {
            true => list(data, &folded),
            false => draw(data, &folded, times),
        };
        views += &format!(
            "<section class=\"view\" data-scope=\"{}\" hidden>{picture}</section>\n",
            escaped(scope)
        );
    }
    let nodes: Map<String, Value> = data
        .nodes()
        .map(|(_, node)| (node.name.clone(), details(data, node)))
        .collect();
    // A tag within a text would end the script.
    let nodes = Value::Object(nodes).to_string().replace('<', "\\u003c");
    let summary = format!(
        "{} in {}",
        counted(grouped(data.len()), "node"),
        counted(scopes.len(), "scope")
    );
    html::filled(
        PAGE,
        &[
            ("{{title}}", &escaped(title)),
            ("{{summary}}", &summary),
            ("{{views}}", &views),
            ("{{nodes}}", &nodes),
        ],
    )
}

/// A list in place of a picture with too many boxes.
fn list(data: &GraphData, folded: &FoldedGraph) -> String {
    let boxes = folded.boxes.iter().filter(|b| !b.is_outside);
    let items = boxes.map(|b| {
        let (kind, what) = match (b.is_scope, b.nodes.first()) {
            (false, Some(&id)) => ("node", data.node(id).op.name.to_owned()),
            _ => ("scope", counted(grouped(b.nodes.len()), "node")),
        };
        let name = escaped(&b.name);
        format!("<li class=\"{kind}\" data-name=\"{name}\">{name}: {what}</li>\n")
    });
    format!(
        "<p>{} boxes are too many for a picture.</p>\n<ul>\n{}</ul>",
        grouped(folded.boxes.len()),
        items.collect::<String>()
    )
}

/// The parts of a node.
fn details(data: &GraphData, node: &Node) -> Value {
    let attrs = node.attrs.iter();
    let attrs: Map<String, Value> = attrs
        .map(|(name, value)| (name.to_string(), json!(value.to_string())))
        .collect();
    let mut all = Map::new();
    all.insert("op".to_owned(), json!(node.op.name));
    let inputs: Vec<String> = node.inputs.iter().map(|&i| data.output_name(i)).collect();
    let controls: Vec<&str> = node.controls.iter().map(|&c| &*data.node(c).name).collect();
    let outputs: Vec<String> = node.outputs.iter().map(ToString::to_string).collect();
    for (key, value, is_empty) in [
        (
            "device",
            json!(node.device.to_string()),
            node.device.is_empty(),
        ),
        ("inputs", json!(inputs), inputs.is_empty()),
        ("after", json!(controls), controls.is_empty()),
        ("outputs", json!(outputs), outputs.is_empty()),
        ("attributes", json!(attrs), attrs.is_empty()),
    ] {
        if !is_empty {
            all.insert(key.to_owned(), value);
        }
    }
    Value::Object(all)
}
