//! Models with variables, and files of weights, on the command line.

mod support;

use serde_json::Value;
use support::{Folder, fails, thalweg, works};
use thalweg_checkpoint::{Weights, save_weights};
use thalweg_graph::Graph;
use thalweg_graphdef::{ExportOptions, MetaOptions, export, export_meta_graph, file};
use thalweg_ops::{LinalgOps, NewGraph, SourceOps, StateOps};
use thalweg_session::Session;
use thalweg_tensor::{DType, Tensor};
use thalweg_train::saved_model::{DEFAULT_SIGNATURE, VARIABLES};
use thalweg_train::{ModelOptions, SavedVariable, SaverNodes, SaverOptions, save_model};

/// A row of three ones.
fn ones(folder: &Folder) -> String {
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }";
    bytes.extend(format!("{head:<117}\n").bytes());
    bytes.extend([1.0f32; 3].iter().flat_map(|v| v.to_le_bytes()));
    std::fs::write(folder.join("x.npy"), bytes).unwrap();
    folder.at("x.npy")
}

/// `y = x w`, on a device of a cluster, with w = 1 2; 3 4; 5 6.
fn graph() -> Graph {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 3]);
    g.device("/job:ps/task:0", || {
        let w = g.variable("w", [[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
        x.matmul(w.value()).named("y");
        g.variable("w/Momentum", 0.5f32);
    });
    g
}

/// Writes the weights, each `more` than the initial value.
fn weights(folder: &Folder, name: &str, more: f32) -> String {
    let w = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(|v| v + more);
    let w = Tensor::new(&[3, 2], &w).unwrap();
    save_weights(folder.join(name), [("w", w)]).unwrap();
    folder.at(name)
}

fn saved(folder: &Folder) -> String {
    let def = {
        let mut def = export_meta_graph(&graph(), &MetaOptions::new()).unwrap();
        thalweg_graphdef::export::clear_devices(def.graph_def.as_mut().unwrap());
        def
    };
    let g = Graph::new();
    let options = thalweg_graphdef::ImportOptions::new();
    let model = thalweg_graphdef::import_meta_graph(&g, &def, &options).unwrap();
    let (x, y) = (model.output("x").unwrap(), model.output("y").unwrap());
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let options = ModelOptions::new().signature(DEFAULT_SIGNATURE, [("in", x)], [("out", y)]);
    save_model(&session, folder.join("saved"), &options).unwrap();
    folder.at("saved")
}

/// An array of results.
fn result(path: &str, name: &str) -> Vec<f32> {
    let all = Weights::open(path).unwrap();
    all.tensor(name).unwrap().to_vec::<f32>().unwrap()
}

#[test]
fn a_saved_model_is_restored_before_it_runs() {
    let folder = Folder::new("saved-run");
    let (model, x, out) = (saved(&folder), ones(&folder), folder.at("r.npz"));
    let feed = format!("in={x}");
    let default = ["run", &model, "--signature", DEFAULT_SIGNATURE];
    let said = works(&[&default[..], &["--feed", &feed, "--out", &out]].concat());
    assert!(said.contains("out: f32[1, 2]"), "{said}");
    assert_eq!(result(&out, "out/0"), [9.0, 12.0]);

    // Names of nodes, and values of another file.
    let other = weights(&folder, "more.safetensors", 1.0);
    let feed = format!("x={x}");
    let own = ["run", &model, "--feed", &feed, "--fetch", "y"];
    works(&[&own[..], &["--out", &out, "--checkpoint", &other]].concat());
    assert_eq!(result(&out, "y/0"), [12.0, 15.0]);

    let none = ["run", &model, "--signature", "predict", "--out", &out];
    let said = fails(&none);
    assert!(said.contains("--signature predict: ") && said.contains("has serving_default"));
}

#[test]
fn a_benchmark_measures_steps_and_makes_up_inputs() {
    let folder = Folder::new("benchmark");
    let model = saved(&folder);
    let run = ["run", &model, "--signature", DEFAULT_SIGNATURE];
    let said = works(&[&run[..], &["--benchmark", "5", "--json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&report["steps"], &report["batch"]), (&5.into(), &1.into()));
    let latency = |name: &str| report["latency_ms"][name].as_f64().unwrap();
    assert!(latency("least") <= latency("median") && latency("median") <= latency("p99"));
    assert!(latency("p99") <= latency("most"));

    let feed = format!("x={}", ones(&folder));
    let own = ["run", &model, "--feed", &feed, "--fetch", "y"];
    let said = works(&[&own[..], &["--benchmark", "2"]].concat());
    assert!(
        said.contains("p99") && said.contains("in batches of 1"),
        "{said}"
    );
    let said = fails(&own);
    assert!(said.contains("--out FILE.npz, or --benchmark N"), "{said}");
    let said = fails(&["run", &model, "--fetch", "y", "--benchmark", "2"]);
    assert!(said.contains("'x'"), "{said}");
}

#[test]
fn graphs_of_a_cluster_run_locally_with_values_of_a_checkpoint() {
    let folder = Folder::new("checkpoint-run");
    let g = graph();
    let def = export(&g, &ExportOptions::new()).unwrap();
    let saved: Vec<_> = g.variables().iter().map(SavedVariable::of).collect();
    let nodes = SaverNodes::add(&g, &saved, &SaverOptions::new()).unwrap();
    let meta = export_meta_graph(&g, &MetaOptions::new().saver(nodes.to_def())).unwrap();
    std::fs::write(folder.join("g.pb"), file::encode(&def)).unwrap();
    std::fs::write(folder.join("g.meta"), file::encode(&meta)).unwrap();
    let (feed, out) = (format!("x={}", ones(&folder)), folder.at("r.npz"));
    for (model, values) in [("g.pb", "w.npz"), ("g.meta", "model.ckpt-7")] {
        let (model, values) = (folder.at(model), weights(&folder, values, 1.0));
        let run = [
            "run", &model, "--feed", &feed, "--fetch", "y", "--out", &out,
        ];
        let restored = ["--checkpoint", &values];
        // The variables are on a device of a cluster.
        assert!(fails(&[&run[..], &restored].concat()).contains("/job:ps"));
        let here = [&run[..], &["--clear-devices"]].concat();
        assert!(fails(&here).contains("w"), "it has no value");
        let output = thalweg(&[&here[..], &restored].concat());
        let note = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{note}");
        assert!(
            note.contains("has no values for 1 variable: w/Momentum"),
            "{note}"
        );
        assert_eq!(result(&out, "y/0"), [12.0, 15.0]);
    }
    let model = folder.at("g.pb");
    save_weights(folder.join("other.npz"), [("v", Tensor::scalar(1.0f32))]).unwrap();
    let other = folder.at("other.npz");
    let run = [
        "run",
        &model,
        "--target",
        "y",
        "--clear-devices",
        "--checkpoint",
    ];
    let said = fails(&[&run[..], &[&other]].concat());
    assert!(said.contains("it has none of the 2 variables of"), "{said}");
    let said = fails(&[&run[..], &[&folder.at("nothing")]].concat());
    assert!(said.contains("there is no file of weights at"), "{said}");
}

#[test]
fn a_frozen_graph_needs_no_checkpoint() {
    let folder = Folder::new("frozen");
    let (model, frozen, out) = (saved(&folder), folder.at("f.pb"), folder.at("r.npz"));
    let said = works(&["freeze", &model, "--outputs", "y", "--out", &frozen]);
    assert!(
        said.starts_with("4 nodes, 2 variables restored; written: "),
        "{said}"
    );
    let feed = format!("x={}", ones(&folder));
    works(&[
        "run", &frozen, "--feed", &feed, "--fetch", "y", "--out", &out,
    ]);
    assert_eq!(result(&out, "y/0"), [9.0, 12.0]);
    let told = works(&["inspect", &frozen]);
    assert!(
        told.contains("1 tensor, 6 elements") && told.contains("3.50000"),
        "{told}"
    );

    let signature = ["--signature", DEFAULT_SIGNATURE, "--out", &frozen];
    works(&[&["freeze", &model][..], &signature].concat());
    let said = fails(&["freeze", &model, "--outputs", "yy", "--out", &frozen]);
    assert!(said.contains("--outputs yy: "), "{said}");
    let said = fails(&["freeze", &model, "--outputs", "w/Assign", "--out", &frozen]);
    assert!(said.contains("--target runs a node"), "{said}");
    let graph = folder.at("g.pb");
    let def = export(&graph_here(), &ExportOptions::new()).unwrap();
    std::fs::write(&graph, file::encode(&def)).unwrap();
    let said = fails(&["freeze", &graph, "--outputs", "y", "--out", &frozen]);
    assert!(said.contains("--checkpoint names a file"), "{said}");
}

/// The same graph without devices.
fn graph_here() -> Graph {
    let g = Graph::new();
    let w = g.variable("w", [[1.0f32, 2.0]]);
    let _ = (w.value() * 2.0).named("y");
    g
}

#[test]
fn tensors_are_listed_with_counts_of_numbers_that_are_not_finite() {
    let folder = Folder::new("inspect");
    let path = folder.join("model.ckpt-3");
    let all = [
        (
            "bad",
            Tensor::vector(&[1.0f32, f32::NAN, 3.0, f32::INFINITY]),
        ),
        ("flags", Tensor::vector(&[true, false])),
        ("words", Tensor::strings(&[2], &["a", "b"]).unwrap()),
    ];
    save_weights(&path, all).unwrap();
    let said = works(&["inspect", &folder.at("model.ckpt-3")]);
    assert!(
        said.contains("3 tensors, 8 elements, 2 not finite"),
        "{said}"
    );
    let told = works(&["inspect", "--json", &folder.at("model.ckpt-3")]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let bad = &told["tensors"][0];
    assert_eq!((&bad["name"], &bad["shape"]), (&"bad".into(), &[4].into()));
    let statistics = &bad["statistics"];
    assert_eq!(statistics["mean"], 2.0);
    assert_eq!(statistics["not_finite"], 2);
    assert_eq!(told["tensors"][2]["statistics"], Value::Null);

    let model = saved(&folder);
    let said = works(&["inspect", &model]);
    assert!(
        said.contains("w/Momentum") && said.contains(VARIABLES),
        "{said}"
    );
    let said = fails(&["inspect", &folder.at("nothing.npz")]);
    assert!(said.contains("nothing.npz"), "{said}");
}

#[test]
fn weights_are_shown_converted_and_compared() {
    let folder = Folder::new("weights");
    let first = weights(&folder, "a.npz", 0.0);
    for to in ["b.safetensors", "model.ckpt-1", "c.npz"] {
        let said = works(&["weights", "convert", &first, &folder.at(to)]);
        assert!(said.starts_with("1 tensor; written: "), "{said}");
        let same = works(&["weights", "diff", &first, &folder.at(to)]);
        assert!(
            same.contains("all 1 tensor are the same") || same.contains("the same"),
            "{same}"
        );
        let shown = works(&["weights", "show", &folder.at(to)]);
        assert!(shown.contains("1 tensor, 24 bytes"), "{shown}");
    }
    let mut all = vec![("v", Tensor::scalar(1i64)), ("k", Tensor::scalar(1i64))];
    let w = Tensor::new(&[3, 2], &[1.0f32, 2.0, 3.5, 4.0, 5.0, 6.25]).unwrap();
    all.push(("w", w));
    save_weights(folder.join("d.npz"), all.clone()).unwrap();
    all[1].1 = Tensor::scalar(1i32);
    all.remove(0);
    save_weights(folder.join("e.npz"), all).unwrap();

    let of = |a: &str, b: &str, more: &[&str]| {
        let (a, b) = (folder.at(a), folder.at(b));
        let output = thalweg(&[&["weights", "diff", "--json", &a, &b], more].concat());
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), told["differences"].clone())
    };
    let (code, told) = of("a.npz", "d.npz", &[]);
    assert_eq!(code, Some(1));
    assert_eq!(told[0], serde_json::json!({"name": "k", "only_in": "b"}));
    let w = serde_json::json!({"name": "w", "max_abs_difference": 0.5, "elements": 2});
    assert_eq!(told[2], w);
    let (code, told) = of("d.npz", "e.npz", &[]);
    assert_eq!((code, told.as_array().unwrap().len()), (Some(1), 2));
    assert_eq!(told[0]["kinds"], "i64[] and i32[]");
    assert_eq!(of("a.npz", "b.safetensors", &[]).0, Some(0));
    let (_, told) = of("a.npz", "d.npz", &["--tolerance", "0.5"]);
    assert_eq!(told.as_array().unwrap().len(), 2);

    let said = fails(&["weights", "convert", &first, &folder.at("x.h5")]);
    assert!(said.contains(".h5 is none of"), "{said}");
    let (a, b) = (folder.at("a.npz"), folder.at("d.npz"));
    let output = thalweg(&["weights", "diff", &a, &b]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("different: 3 tensors; the same: 0 tensors")
            && text.contains("0.50000 at most"),
        "{text}"
    );
}
