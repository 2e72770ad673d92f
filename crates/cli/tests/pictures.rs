//! Pages of graphs, profiles and traces on the command line.

mod support;

use prost::Message;
use serde_json::Value;
use support::{Folder, fails, works};
use thalweg_graph::Graph;
use thalweg_graphdef::{ExportOptions, export};
use thalweg_ops::{LinalgOps, MathOps, NewGraph, ReduceOps, SourceOps, StateOps};

/// Writes a graph of a layer `dense` and a scope `loss`, with a node that initializes it.
fn model(folder: &Folder) -> String {
    let g = Graph::new();
    let x = g.constant([[1.0f32, 2.0, 3.0]]);
    let w = g.variable("dense/w", [[1.0f32, 1.0], [1.0, 1.0], [1.0, 1.0]]);
    let y = g.name_scope("dense", || x.matmul(w.value()).named("y"));
    let _ = g.name_scope("loss", || y.square().sum().named("sum"));
    // A text that would end the script of a page.
    let words = thalweg_tensor::Tensor::strings(&[1], &["</script><b>\"&'"]).unwrap();
    let _ = g.constant(words).named("words");
    g.group("init", g.initializers());
    let def = export(&g, &ExportOptions::default()).unwrap();
    std::fs::write(folder.join("g.pb"), def.encode_to_vec()).unwrap();
    folder.at("g.pb")
}

#[test]
fn a_page_has_a_view_for_each_scope_and_the_parts_of_each_node() {
    let folder = Folder::new("pages");
    let graph = model(&folder);
    let (page, dot) = (folder.at("g.html"), folder.at("g.dot"));
    works(&[
        "graph", &graph, "--html", &page, "--dot", &dot, "--depth", "1",
    ]);
    let dot = std::fs::read_to_string(dot).unwrap();
    assert!(
        dot.contains("label=\"dense/\\n") && !dot.contains("dense/y"),
        "{dot}"
    );
    let page = std::fs::read_to_string(page).unwrap();
    for scope in ["", "dense", "loss"] {
        assert!(
            page.contains(&format!("data-scope=\"{scope}\"")),
            "no view of {scope}"
        );
    }
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("{{"), "a mark is left");
    let nodes = page
        .split("<script id=\"nodes\" type=\"application/json\">")
        .nth(1)
        .unwrap();
    let nodes: Value = serde_json::from_str(nodes.split("</script>").next().unwrap()).unwrap();
    assert_eq!(nodes["loss/sum"]["op"], "Sum");
    assert_eq!(nodes["loss/sum"]["outputs"][0], "f32[]");
    let words = nodes["words"]["attributes"]["value"].as_str().unwrap();
    assert!(words.contains("</script><b>"), "{words}");
}

#[test]
fn a_run_is_traced_and_profiled() {
    let folder = Folder::new("profiles");
    let graph = model(&folder);
    let (trace, page) = (folder.at("step.json"), folder.at("g.html"));
    let steps = [
        "run", &graph, "--init", "init", "--target", "loss/sum", "--steps", "3",
    ];
    let run = [&steps[..], &["--profile", "--trace", &trace]].concat();
    let text = works(&run);
    assert!(text.contains("mean of 2 steps"), "{text}");
    let profile = works(&["profile", &trace, &trace]);
    let layer = profile.lines().find(|l| l.starts_with("dense "));
    assert!(
        layer.is_some() && profile.contains("\nMatMul "),
        "{profile}"
    );
    let profile: Value = serde_json::from_str(&works(&["profile", &trace, "--json"])).unwrap();
    assert_eq!(profile["steps"], 1);
    let product = profile["ops"]
        .as_array()
        .unwrap()
        .iter()
        .find(|o| o["op"] == "MatMul")
        .unwrap();
    assert_eq!(
        (&product["runs"], &product["bytes"]),
        (&1.into(), &8.into())
    );
    let json: Value =
        serde_json::from_str(&works(&[&steps[..], &["--profile", "--json"]].concat())).unwrap();
    assert_eq!(json["profile"]["steps"], 2);
    works(&["graph", &graph, "--html", &page, "--trace", &trace]);
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .contains(" ms</text>")
    );
}

#[test]
fn a_timeline_of_tensorflow_has_a_profile() {
    let folder = Folder::new("timelines");
    let event = |op: &str, node: &str, ts: u32| {
        serde_json::json!({
            "ph": "X", "cat": "Op", "name": op, "pid": 1, "tid": 0, "ts": ts, "dur": 10,
            "args": {"name": node, "op": op, "input0": "x"},
        })
    };
    let events = [
        event("ReadVariableOp", "dense/MatMul/ReadVariableOp", 5),
        event("MatMul", "dense/MatMul", 20),
    ];
    let file = folder.at("timeline.json");
    std::fs::write(
        &file,
        serde_json::json!({"traceEvents": events}).to_string(),
    )
    .unwrap();
    let profile: Value = serde_json::from_str(&works(&["profile", &file, "--json"])).unwrap();
    let layers = profile["layers"].as_array().unwrap();
    assert_eq!(
        (layers.len(), &layers[0]["layer"], &layers[0]["runs"]),
        (1, &"dense".into(), &2.into())
    );
}

#[test]
fn a_file_that_is_no_trace_is_named() {
    let folder = Folder::new("no-traces");
    for (content, reason) in [
        ("", "it is no trace in JSON"),
        ("[1, 2]", "it has no event"),
        ("{\"a\": 1}", "it has no list \"traceEvents\""),
        (
            "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"a\"}]}",
            "it has no event",
        ),
    ] {
        let file = folder.at("t.json");
        std::fs::write(&file, content).unwrap();
        let error = fails(&["profile", &file]);
        assert!(
            error.contains(reason) && error.contains("t.json"),
            "{content}: {error}"
        );
    }
    assert!(fails(&["profile", &folder.at("none.json")]).contains("none.json"));
}
