//! Device strings, scopes, colocation, device functions and placements, compared with TensorFlow's: the cases of
//! `tests/golden/devices.py`. Intended differences are listed here and in `docs/book/placement.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use serde_json::Value as Json;
use thalweg::graph::device::{DeviceFnError, LoadTable};
use thalweg::graph::place::{PlaceOptions, place};
use thalweg::graph::{Attrs, Fact, GraphData, Node, NodeId, Origin, OutputId};
use thalweg::prelude::*;

/// The cases of a kind.
fn cases(kind: &str) -> Vec<Json> {
    let file = include_bytes!("../golden/devices.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&file[..])
        .read_to_string(&mut text)
        .unwrap();
    let all = text
        .lines()
        .map(|l| serde_json::from_str::<Json>(l).unwrap());
    let cases: Vec<Json> = all.filter(|c| c["kind"] == kind).collect();
    assert!(!cases.is_empty(), "no cases of {kind}");
    cases
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap()
}

fn texts(json: &Json) -> Vec<&str> {
    json.as_array().unwrap().iter().map(text).collect()
}

/// TensorFlow's string without its parts for "any".
fn canonical(device: &str) -> String {
    let parts = device
        .split('/')
        .filter(|p| !p.is_empty() && !p.ends_with(":*:*"));
    let known = parts.filter(|p| !p.ends_with(":*") || p.starts_with("device:"));
    known.map(|p| format!("/{p}")).collect()
}

/// Strings that TensorFlow accepts and Thalweg rejects: a second value for the same part (TensorFlow keeps the last), a
/// part without its leading `/` or its value, names that no job can have, and numbers below zero or beyond an int.
fn is_rejected_on_purpose(text: &str) -> bool {
    let part = |name: &str| text.matches(name).count();
    let devices = part("/device:") + part("/cpu") + part("/gpu") + part("/GPU");
    let second = part("/job:") > 1 || part("/task:") > 1 || part("/replica:") > 1 || devices > 1;
    second
        || text.contains(":-")
        || !text.starts_with('/')
        || text.contains("//")
        || text.len() > 1 && text.ends_with('/')
        || text.contains(|c: char| !c.is_ascii_alphanumeric() && !"/:_*".contains(c))
        || text.contains("99999999999")
        || text.contains("/job:1")
        || text.ends_with(":")
}

#[test]
fn device_strings_parse_and_print_as_in_tensorflow() {
    let mut refused = Vec::new();
    for case in cases("string") {
        let given = text(&case["text"]);
        let ours = DeviceSpec::parse(given).map(|d| d.to_string());
        match (&case["printed"], ours) {
            (Json::String(theirs), Ok(ours)) => assert_eq!(ours, canonical(theirs), "{given:?}"),
            (Json::String(_), Err(e)) => {
                assert!(is_rejected_on_purpose(given), "{e}");
                refused.push(given.to_owned());
            }
            (_, Ok(ours)) => {
                // TensorFlow's C++ takes these too.
                let any = given.contains("/replica:*") || given.contains("/task:*");
                assert!(any || given == "/device:GPU", "{given:?} is {ours}");
            }
            (_, Err(_)) => {}
        }
    }
    assert!(refused.len() < 20, "{refused:?}");
}

#[test]
fn device_specs_merge_as_in_tensorflow() {
    for case in cases("merge") {
        let spec = |key: &str| DeviceSpec::parse(text(&case[key])).unwrap();
        let merged = spec("inner").or(&spec("outer")).to_string();
        assert_eq!(merged, canonical(text(&case["merged"])), "{case}");
    }
}

/// The device functions of the script.
fn function(name: &str) -> DeviceScope {
    fn parse(text: &str) -> Result<Option<DeviceSpec>, DeviceFnError> {
        Ok(Some(DeviceSpec::parse(text)?))
    }
    match name {
        "job_z" => DeviceScope::function(|_| parse("/job:z")),
        "merge_w" => DeviceScope::function(|node| {
            let w = DeviceSpec::parse("/job:w/task:1")?;
            Ok(Some(node.device.or(&w)))
        }),
        "by_op" => DeviceScope::function(|node| match node.op.name {
            "VarHandleOp" => parse("/job:ps"),
            _ => parse("/job:worker"),
        }),
        "empty" => DeviceScope::function(|_| parse("")),
        "keep" => DeviceScope::function(|node| Ok(Some(node.device.clone()))),
        _ => panic!("there is no function {name}"),
    }
}

#[test]
fn device_scopes_nest_as_in_tensorflow() {
    fn build<'g>(g: &'g Graph, stack: &[Json]) -> Operation<'g> {
        let Some((scope, rest)) = stack.split_first() else {
            return g.placeholder("x", DType::F32, []).operation();
        };
        let scope = match scope.as_str() {
            None => DeviceScope::None,
            Some(s) => s.strip_prefix("fn:").map_or_else(|| s.into(), function),
        };
        g.device(scope, || build(g, rest))
    }
    for case in cases("scope") {
        let g = Graph::new();
        let node = build(&g, case["stack"].as_array().unwrap());
        let device = g.snapshot().node(node.id()).device.to_string();
        assert_eq!(device, canonical(text(&case["device"])), "{case}");
        assert!(g.errors().is_empty());
    }
}

#[test]
fn colocation_matches_tensorflows_groups_and_devices() {
    for case in cases("colocate") {
        let g = Graph::new();
        let p = |name: &str| g.placeholder(name, DType::F32, []).operation();
        match text(&case["name"]) {
            "plain" => {
                let a = p("a");
                g.colocate_with(a, || p("b"));
            }
            "with_device" => {
                let a = g.device("/job:ps/task:1", || p("a"));
                g.device("/gpu:0", || g.colocate_with(a, || p("b")));
            }
            "inner_device" => {
                let a = g.device("/job:ps", || p("a"));
                g.colocate_with(a, || g.device("/gpu:0", || p("b")));
            }
            "inner_device_no_outer" => {
                let a = p("a");
                g.colocate_with(a, || g.device("/gpu:0", || p("b")));
            }
            "chain" => {
                let a = p("a");
                let b = g.colocate_with(a, || p("b"));
                g.colocate_with(b, || p("c"));
            }
            "nested" => {
                let (a, b) = (p("a"), p("b"));
                g.colocate_with(a, || g.colocate_with(b, || p("c")));
            }
            "nested_devices" => {
                let a = g.device("/cpu:0", || p("a"));
                let b = g.device("/cpu:1", || p("b"));
                g.colocate_with(a, || g.colocate_with(b, || p("c")));
            }
            other => panic!("there is no case {other}"),
        }
        let data = g.snapshot();
        for expected in case["nodes"].as_array().unwrap() {
            let node = data.node(data.find(text(&expected["name"])).unwrap());
            let groups: Vec<String> = node
                .colocation
                .iter()
                .map(|c| format!("loc:@{c}"))
                .collect();
            assert_eq!(
                groups,
                texts(&expected["class"]),
                "{}: {}",
                case["name"],
                node.name
            );
            assert_eq!(
                node.device.to_string(),
                canonical(text(&expected["device"])),
                "{case}"
            );
        }
    }
}

fn dims(json: &Json) -> Vec<i64> {
    json.as_array()
        .unwrap()
        .iter()
        .map(|d| d.as_i64().unwrap())
        .collect()
}

/// A variable's node and nothing else.
fn handle<'g>(g: &'g Graph, name: &str, dims: &[i64]) -> Operation<'g> {
    let node = g.op("VarHandleOp").name(name).attr("dtype", DType::F32);
    node.attr("shape", Shape::from(dims)).build()
}

#[test]
fn variables_are_on_tensorflows_servers() {
    for case in cases("setter") {
        let tasks = case["tasks"].as_u64().unwrap() as u32;
        let setter = ReplicaDeviceSetter::new(tasks);
        let setter = match text(&case["strategy"]) {
            "greedy" => setter.strategy(Greedy::by_bytes(tasks)),
            _ => setter,
        };
        let g = Graph::new();
        let devices: Vec<String> = g.device(setter, || {
            let variables = case["variables"].as_array().unwrap().iter().enumerate();
            let made = variables.map(|(i, v)| {
                let scope = if case["pinned"] == i { "/task:0" } else { "" };
                g.device(scope, || handle(&g, text(&v[0]), &dims(&v[1])))
            });
            let made: Vec<Operation<'_>> = made.collect();
            let data = g.snapshot();
            made.iter()
                .map(|m| data.node(m.id()).device.to_string())
                .collect()
        });
        assert!(g.errors().is_empty(), "{:?}", g.errors());
        let expected: Vec<String> = texts(&case["devices"]).into_iter().map(canonical).collect();
        assert_eq!(
            devices, expected,
            "{} on {tasks}, {}",
            case["model"], case["strategy"]
        );
    }
}

#[test]
fn figure_4_matches_the_report() {
    let tasks = |strategy: &str| {
        let case = cases("setter").into_iter().find(|c| {
            c["model"] == "figure_4"
                && c["tasks"] == 3
                && c["pinned"].is_null()
                && c["strategy"] == strategy
        });
        texts(&case.unwrap()["devices"])
            .into_iter()
            .map(|d| d.chars().last().unwrap())
            .collect::<String>()
    };
    assert_eq!(
        (tasks("round_robin"), tasks("greedy")),
        ("0120".to_owned(), "0121".to_owned())
    );
}

#[test]
fn replica_device_setter_arguments_match_tensorflow() {
    for case in cases("options") {
        let arguments = &case["arguments"];
        let mut setter = ReplicaDeviceSetter::new(arguments["ps_tasks"].as_u64().unwrap() as u32);
        let spec = |j: &Json| DeviceSpec::parse(text(j)).unwrap();
        if let Some(d) = arguments.get("ps_device") {
            setter = setter.ps_device(spec(d));
        }
        if let Some(d) = arguments.get("worker_device") {
            setter = setter.worker_device(spec(d));
        }
        if let Some(merge) = arguments.get("merge_devices") {
            setter = setter.merge_devices(merge.as_bool().unwrap());
        }
        if let Some(ops) = arguments.get("ps_ops") {
            setter = setter.ps_ops(texts(ops));
        }
        let g = Graph::new();
        let nodes = g.device("/replica:5", || {
            g.device(setter, || {
                g.device(text(&case["scope"]), || {
                    let a = handle(&g, "a", &[]);
                    let b = g.placeholder("b", DType::F32, []).operation();
                    [a, b, handle(&g, "c", &[])]
                })
            })
        });
        let data = g.snapshot();
        let devices = nodes.map(|n| data.node(n.id()).device.to_string());
        let expected: Vec<String> = texts(&case["devices"]).into_iter().map(canonical).collect();
        assert_eq!(devices[..], expected[..], "{case}");
    }
}

/// A graph from its description: real ops, with only the attributes and facts that the placer uses.
fn described(case: &Json) -> GraphData {
    let registry = Graph::new().registry().clone();
    let mut data = GraphData::indexed();
    let mut ids = BTreeMap::new();
    for node in case["nodes"].as_array().unwrap() {
        let op = text(&node["op"]);
        let def = registry
            .get(op)
            .unwrap_or_else(|| panic!("there is no op {op}"));
        let output = |name: &&str| {
            let (node, index) = name.split_once(':').unwrap();
            OutputId {
                node: ids[node],
                index: index.parse().unwrap(),
            }
        };
        let dtype = if op == "VarHandleOp" {
            DType::Resource
        } else {
            DType::F32
        };
        let outputs = def
            .outputs
            .iter()
            .map(|_| Fact::new(dtype, Shape::unknown()));
        let groups = texts(&node["class"]).into_iter();
        let id = data.push(Node {
            name: text(&node["name"]).to_owned(),
            op: def,
            inputs: texts(&node["inputs"]).iter().map(output).collect(),
            controls: texts(&node["controls"]).iter().map(|c| ids[*c]).collect(),
            attrs: Attrs::default(),
            device: DeviceSpec::parse(text(&node["device"])).unwrap(),
            colocation: groups
                .map(|c| c.strip_prefix("loc:@").unwrap().into())
                .collect(),
            outputs: outputs.collect(),
            origin: Origin::Other("a case".into()),
        });
        ids.insert(text(&node["name"]), id);
    }
    data
}

#[test]
fn placements_match_tensorflow() {
    let devices: Vec<DeviceSpec> = (0..4).map(thalweg::device::Cpu::local).collect();
    let mut compared = 0;
    for case in cases("place") {
        let data = described(&case);
        let placed = place(
            &data,
            &PlaceOptions {
                devices: &devices,
                kernels: &|_| std::iter::once("CPU").collect(),
                soft: case["soft"].as_bool().unwrap(),
                deny_fallback: false,
                fixed: None,
            },
        );
        let name = format!("{}, soft {}", case["name"], case["soft"]);
        let placed = match (placed, case["refused"].as_bool().unwrap()) {
            (Ok(placed), false) => placed,
            (Err(_), true) => continue,
            (Ok(_), true) => panic!("{name}: TensorFlow refuses it"),
            (Err(e), false) => panic!("{name}: {e}"),
        };
        for (node, theirs) in case["placed"].as_object().unwrap() {
            let id = data.find(node).unwrap();
            let ours = placed.name(id).to_string();
            assert_eq!(
                ours,
                text(theirs),
                "{name}: {node}\n{}",
                placed.report(&data)
            );
            compared += 1;
        }
    }
    assert!(compared > 2000, "{compared}");
}

#[test]
fn a_load_table_lists_the_load_of_each_server() {
    let g = Graph::new();
    g.device(ReplicaDeviceSetter::new(2), || {
        handle(&g, "large", &[100, 10]);
        handle(&g, "small", &[10]);
    });
    let table = LoadTable::requested(&g.snapshot(), &[]);
    let bytes: Vec<u64> = table.loads.iter().map(|l| l.bytes).collect();
    assert_eq!(bytes, [4000, 40]);
    assert!((table.imbalance() - 4000.0 / 2020.0).abs() < 1e-9);
    assert!(
        table.to_text().contains("/job:ps/task:1"),
        "{}",
        table.to_text()
    );
}

/// The nodes that another task waits for, each with that task's device, in a model with variables on `servers` servers.
fn control_between_tasks(servers: usize) -> BTreeSet<(String, usize)> {
    let g = Graph::new();
    let train = g.device(ReplicaDeviceSetter::new(servers as u32), || {
        let step = create_global_step(&g);
        let variable = |i| g.variable(&format!("w{i}"), [1.0f32]).value();
        let product = (1..6).fold(variable(0), |product, i| product * variable(i));
        Adam::new(0.1).minimize_counting(product, step)
    });
    assert_eq!(g.errors(), []);
    let tasks = (0..servers).map(|i| format!("/job:ps/replica:0/task:{i}/device:CPU:0"));
    let worker = "/job:worker/replica:0/task:0/device:CPU:0".to_owned();
    let devices = tasks.chain([worker]).map(|t| t.parse().unwrap());
    let devices: Vec<DeviceSpec> = devices.collect();
    let options = PlaceOptions {
        devices: &devices,
        kernels: &|_| ["CPU"].into_iter().collect(),
        soft: false,
        deny_fallback: false,
        fixed: None,
    };
    let data = g.snapshot();
    let placement = place(&data, &options).unwrap();
    let mut crossing = BTreeSet::new();
    for (id, node) in data.nodes() {
        let far = |&&c: &&NodeId| placement.device(c) != placement.device(id);
        let from = node.controls.iter().filter(far);
        crossing.extend(from.map(|&c| (data.node(c).name.clone(), placement.device(id))));
    }
    assert!(data.find(&train.name()).is_some());
    crossing
}

#[test]
fn the_end_of_an_update_crosses_between_tasks_once_for_each_server() {
    // There is nothing to wait for elsewhere.
    assert_eq!(control_between_tasks(1), BTreeSet::new());
    // Each server signals its end once, to the server that counts steps.
    let crossing = control_between_tasks(3);
    assert_eq!(crossing.len(), 4, "{crossing:?}");
}
