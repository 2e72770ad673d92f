//! The placer compared with TensorFlow's: the same device for every node of the same graphs.

use std::collections::HashMap;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value as Json;
use thalweg::graph::place::{PlaceOptions, PlaceReason, place};
use thalweg::graph::{DeviceSpec, GraphData, Node};
use thalweg::prelude::*;

fn text<'a>(json: &'a Json, key: &str) -> &'a str {
    json[key].as_str().expect("a string")
}

fn texts<'a>(json: &'a Json, key: &str) -> Vec<&'a str> {
    let list = json[key].as_array().expect("a list");
    list.iter().map(|v| v.as_str().expect("a string")).collect()
}

/// A device as the table writes it.
fn spec(text: &str) -> DeviceSpec {
    DeviceSpec::parse(text).expect("a device")
}

/// The case's graph.
fn graph(case: &Json) -> GraphData {
    let g = Graph::new();
    let mut made: HashMap<&str, Operation<'_>> = HashMap::new();
    let nodes = case["nodes"].as_array().expect("nodes");
    for json in nodes {
        let (name, op) = (text(json, "name"), text(json, "op"));
        let mut node = g.op(op).name(name);
        for input in texts(json, "inputs") {
            node = match input.strip_prefix('^') {
                Some(control) => node.control(made[control]),
                None => node.input(made[input].output(0)),
            };
        }
        node = match op {
            "Placeholder" | "VarHandleOp" => node
                .attr("dtype", DType::F32)
                .attr("shape", Shape::from([2])),
            "Const" => {
                let value = match json["scalar"] == true {
                    true => Tensor::from(1.0f32),
                    false => Tensor::from([1.0f32, 2.0]),
                };
                node.attr("dtype", DType::F32).attr("value", value)
            }
            "ReadVariableOp" => node.attr("dtype", DType::F32),
            _ => node,
        };
        made.insert(name, node.build());
    }
    assert_eq!(g.errors(), [], "{}", text(case, "name"));
    let mut data = GraphData::new();
    for ((_, node), json) in g.snapshot().nodes().zip(nodes) {
        data.push(Node {
            device: spec(text(json, "device")),
            colocation: texts(json, "class").into_iter().map(Into::into).collect(),
            ..Node::clone(node)
        });
    }
    data
}

fn cases() -> Vec<Json> {
    let packed = include_bytes!("../golden/placements.jsonl.gz");
    let mut lines = String::new();
    let mut reader = GzDecoder::new(&packed[..]);
    reader.read_to_string(&mut lines).expect("the table");
    let parse = |line| serde_json::from_str(line).expect("a case");
    lines.lines().map(parse).collect()
}

/// The first difference from TensorFlow; `None` where there is none.
fn difference(case: &Json) -> Option<String> {
    let devices: Vec<DeviceSpec> = texts(case, "devices").into_iter().map(spec).collect();
    let data = graph(case);
    let options = PlaceOptions {
        devices: &devices,
        kernels: &|_| std::iter::once("CPU").collect(),
        soft: case["soft"] == true,
        deny_fallback: false,
        fixed: None,
    };
    match (place(&data, &options), case["error"].as_str()) {
        (Ok(found), None) => {
            let expected = texts(case, "placed");
            let wrong = data
                .nodes()
                .zip(expected)
                .find_map(|((id, node), expected)| {
                    let got = found.name(id).to_string();
                    let name = &node.name;
                    (got != expected).then(|| format!("{name} is on {got} and not on {expected}"))
                });
            wrong.map(|w| format!("{w}\n{}", found.report(&data)))
        }
        (Ok(_), Some(kind)) => Some(format!("placed, where TensorFlow finds a {kind} error")),
        (Err(error), kind) => {
            let found = match error.reason {
                PlaceReason::Conflict { .. } | PlaceReason::NoCommonType { .. } => "conflict",
                _ => "device",
            };
            (kind != Some(found)).then(|| format!("{kind:?} expected, found {error}"))
        }
    }
}

#[test]
fn every_node_is_on_tensorflows_device() {
    let cases = cases();
    assert!(cases.len() >= 800, "{} cases", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}", text(case, "name"), difference(case)?)))
        .collect();
    let (count, all) = (wrong.len(), cases.len());
    assert!(
        wrong.is_empty(),
        "{count} of {all}:\n{}",
        wrong[..count.min(5)].join("\n")
    );
}

#[test]
fn placed_nodes_stay_and_new_nodes_are_placed() {
    let mut compared = 0;
    for case in cases().iter().filter(|c| c["error"].is_null()) {
        let devices: Vec<DeviceSpec> = texts(case, "devices").into_iter().map(spec).collect();
        let data = graph(case);
        let mut options = PlaceOptions {
            devices: &devices,
            kernels: &|_| std::iter::once("CPU").collect(),
            soft: case["soft"] == true,
            deny_fallback: false,
            fixed: None,
        };
        let mut half = GraphData::new();
        for (_, node) in data.nodes().take(data.len() / 2) {
            half.push(node.clone());
        }
        // A name that only the second half has may resolve or cause a conflict.
        let Ok(first) = place(&half, &options) else {
            continue;
        };
        options.fixed = Some(&first);
        let Ok(whole) = place(&data, &options) else {
            continue;
        };
        for id in half.ids() {
            assert_eq!(whole.name(id), first.name(id), "{}", text(case, "name"));
        }
        compared += 1;
    }
    assert!(compared > 300, "only {compared} graphs could grow");
}
