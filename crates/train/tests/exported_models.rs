//! TensorFlow loads models that Thalweg writes, and the reverse, with the same results. One process of Python runs all
//! of it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use thalweg_checkpoint::{BundleReader, BundleWriter, SliceSpec};
use thalweg_graph::{Graph, Operation, Output};
use thalweg_graphdef::{
    File, ImportOptions, MetaOptions, export_meta_graph, file, import_meta_graph,
};
use thalweg_ops::{FlowOps, LinalgOps, MathOps, NewGraph, ReduceOps, SourceOps, StateOps};
use thalweg_optim::{GradientDescent, Optimizer};
use thalweg_session::{Feeding, Session};
use thalweg_tensor::{DType, Tensor};
use thalweg_train::saved_model::{DEFAULT_SIGNATURE, LoadOptions, SavedModel, restore_meta_graph};
use thalweg_train::{
    ModelOptions, SavedVariable, Saver, SaverNodes, SaverOptions, freeze, save_model, values,
};

#[path = "exported_models/oracle_process.rs"]
mod oracle_process;

use oracle_process::OracleProcess;

struct ExportedModel<'g> {
    x: Output<'g>,
    ids: Output<'g>,
    out: Output<'g>,
    train: Operation<'g>,
}

/// A layer with weights in parts, rows of a table, and a branch.
fn model(g: &Graph) -> ExportedModel<'_> {
    let x = g.placeholder("x", DType::F32, [-1, 4]);
    let ids = g.placeholder("ids", DType::I64, [-1]);
    let initial: Vec<f32> = (0..12).map(|i| (i as f32 * 0.37).sin() * 0.5).collect();
    let initial = Tensor::new(&[4, 3], &initial).unwrap();
    let w = g.partitioned_variable("w", initial, 2);
    let rows = Tensor::from([[1.0f32, 0.5, 0.25], [9.0, 9.0, 9.0], [-1.0, 2.0, 0.0]]);
    let rows = g.variable("rows", rows);
    g.untrained_variable("global_step", 7i64);
    let rows = g.op("ResourceGather").input(rows.handle()).input(ids);
    let rows = rows.attr("dtype", DType::F32).output();
    let y = x.matmul(w.value()).tanh() + rows;
    let large = y.reduce_sum(&[], false).greater(0.0);
    let out = g.cond(large, |_| vec![y * 2.0], |_| vec![y])[0];
    let out = g.op("Identity").input(out).name("out").output();
    let loss = out.square().reduce_mean(&[], false).named("loss");
    g.add_to_collection("losses", loss);
    let train = GradientDescent::new(0.5).minimize(loss);
    g.add_operation_to_collection("train_op", train);
    ExportedModel { x, ids, out, train }
}

fn x() -> Tensor {
    Tensor::from([[1.0f32, 2.0, 3.0, 4.0], [-1.0, 0.0, 1.0, 0.5]])
}

fn ids() -> Tensor {
    Tensor::vector(&[2i64, 0])
}

fn numbers(tensor: &Tensor) -> Value {
    let row = tensor.dims()[1];
    let all = tensor.as_slice::<f32>().unwrap();
    json!(all.chunks(row).collect::<Vec<_>>())
}

fn close(name: &str, found: &Tensor, wanted: &Value) {
    let wanted = wanted.as_array().unwrap().iter();
    let wanted = wanted
        .flat_map(|row| row.as_array().unwrap())
        .map(|v| v.as_f64().unwrap());
    let found = found.as_slice::<f32>().unwrap();
    let pairs: Vec<_> = found.iter().zip(wanted).collect();
    assert_eq!(pairs.len(), found.len());
    for (found, wanted) in pairs {
        let off = (f64::from(*found) - wanted).abs();
        assert!(
            off <= 1e-5 * wanted.abs() + 1e-6,
            "{name}: {found} and {wanted}"
        );
    }
}

/// Writes a MetaGraph with a saver's nodes, and a checkpoint for it.
fn write_meta(session: &Session<'_>, folder: &Path, options: &SaverOptions) {
    let graph = session.graph();
    let saved: Vec<_> = graph.variables().iter().map(SavedVariable::of).collect();
    let nodes = SaverNodes::add(graph, &saved, options).unwrap();
    let meta = MetaOptions::new().saver(nodes.to_def());
    let meta = export_meta_graph(graph, &meta).unwrap();
    let mut writer = BundleWriter::create(&folder.join("model")).unwrap();
    let handles: Vec<_> = saved.iter().map(|s| s.handle).collect();
    let values = values::read(session, &handles).unwrap();
    for (one, value) in saved.iter().zip(&values) {
        let Some(slice) = &one.slice else {
            writer.add(&one.name, value).unwrap();
            continue;
        };
        let begin = slice.begin.iter().zip(value.dims());
        let parts: Vec<_> = begin.map(|(&b, &l)| Some((b, l))).collect();
        let slice = SliceSpec::new(&slice.dims, &parts).unwrap();
        writer.add_slice(&one.name, &slice, value).unwrap();
    }
    writer.finish().unwrap();
    std::fs::write(folder.join("model.meta"), file::encode(&meta)).unwrap();
}

fn write_ours(ours: &Path) {
    let g = Graph::new();
    let m = model(&g);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let feeds = [m.x.feed(x()), m.ids.feed(ids())];
    let out: Tensor = session.run(m.out, &feeds).unwrap();
    let signature = ModelOptions::new().signature(
        DEFAULT_SIGNATURE,
        [("images", m.x), ("ids", m.ids)],
        [("out", m.out)],
    );
    save_model(&session, ours.join("saved"), &signature).unwrap();
    let frozen = freeze(&session, &[m.out]).unwrap();
    std::fs::write(ours.join("frozen.pb"), file::encode(&frozen)).unwrap();
    write_meta(&session, &ours.join("meta"), &SaverOptions::new());

    // Each of several devices has its own files.
    let g = Graph::new();
    let sharded = g.device("/cpu:0", || model(&g));
    let one = Session::new(&g).unwrap();
    one.run(g.initializers(), []).unwrap();
    let options = SaverOptions::new().sharded(true);
    write_meta(&one, &ours.join("sharded"), &options);
    let of = |f: &Tensor| {
        one.run(
            sharded.out,
            [sharded.x.feed(f.clone()), sharded.ids.feed(ids())],
        )
    };
    let same: Tensor = of(&x()).unwrap();
    assert_eq!(same, out);

    session.run(m.train, &feeds).unwrap();
    let trained: Tensor = session.run(m.out, &feeds).unwrap();
    let wanted = json!({"saved": numbers(&out), "trained": numbers(&trained)});
    std::fs::write(ours.join("wanted.json"), wanted.to_string()).unwrap();
}

fn load_theirs(theirs: &Path) {
    let wanted = std::fs::read(theirs.join("wanted.json")).unwrap();
    let wanted: Value = serde_json::from_slice(&wanted).unwrap();
    let run = |model: &SavedModel, signature: &str| {
        let out = model.run(signature, &[("x", x())]).unwrap();
        out["y"].clone()
    };
    let one = LoadOptions::new().tag("mine");
    let one = SavedModel::load_with(theirs.join("one"), &one).unwrap();
    close("one", &run(&one, "predict"), &wanted["one"]);
    let two = SavedModel::load(theirs.join("two")).unwrap();
    close("two", &run(&two, DEFAULT_SIGNATURE), &wanted["two"]);
    let simple = SavedModel::load(theirs.join("simple")).unwrap();
    close("simple", &run(&simple, DEFAULT_SIGNATURE), &wanted["one"]);

    // A MetaGraph and its checkpoint.
    let File::MetaGraph(meta) = file::read(&theirs.join("meta/model.meta")).unwrap() else {
        panic!("no MetaGraph");
    };
    let g = Graph::new();
    let imported = import_meta_graph(&g, &meta, &ImportOptions::new()).unwrap();
    let session = Session::new(&g).unwrap();
    let restored = restore_meta_graph(&session, &theirs.join("meta/model"), &meta).unwrap();
    assert_eq!(restored, 3);
    session
        .run(imported.operation("main_op").unwrap(), [])
        .unwrap();
    let of = |name| imported.output(name).unwrap();
    let y: Tensor = session.run(of("y"), [of("x").feed(x())]).unwrap();
    close("meta", &y, &wanted["one"]);

    // Checkpoints that TensorFlow saves with our nodes have our names.
    for name in ["meta", "sharded"] {
        let reader = BundleReader::open(theirs.join(name).join("again")).unwrap();
        reader.verify().unwrap();
        assert_eq!(
            reader.names().collect::<Vec<_>>(),
            ["global_step", "rows", "w"]
        );
    }
}

/// Loads a model, adds a head, and saves both, in each format.
fn extend(theirs: &Path, extended: &Path) {
    let options = match theirs.ends_with("one") {
        true => LoadOptions::new().tag("mine"),
        false => LoadOptions::new(),
    };
    let model = SavedModel::load_with(theirs, &options).unwrap();
    let signature = model
        .signatures()
        .values()
        .find(|s| s.outputs.contains_key("y"));
    let (session, signature) = (model.session(), signature.unwrap());
    let g = session.graph();
    let loaded = g.variables().len();
    let (x, y) = (
        g.output(signature.inputs["x"]),
        g.output(signature.outputs["y"]),
    );
    if theirs.ends_with("two") {
        // The object graph tells which one is not trained.
        assert_eq!((loaded, g.trainable_variables().len()), (5, 4));
    }
    let scale = g.variable("head/scale", 2.0f32);
    let twice = y * scale;
    // The initializers of loaded variables keep what is loaded, or are TensorFlow's own.
    session.run(scale.initializer(), []).unwrap();
    let signature =
        ModelOptions::new().signature(DEFAULT_SIGNATURE, [("x", x)], [("twice", twice)]);
    save_model(session, extended, &signature).unwrap();
    let path = Saver::new(g)
        .save(session, extended.with_extension("ckpt"), None)
        .unwrap();
    let reader = BundleReader::open(path).unwrap();
    let names: Vec<_> = reader
        .names()
        .filter(|n| !n.starts_with("_thalweg"))
        .collect();
    // The parts of `w` of the first model are one tensor.
    let parts = usize::from(names.contains(&"w") && loaded > 2);
    assert_eq!(names.len(), loaded + 1 - parts, "{names:?}");
}

#[test]
fn tensorflow_and_thalweg_load_what_the_other_wrote() {
    let root: PathBuf = std::env::temp_dir();
    let root = root.join(format!("thalweg-exported-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let (ours, theirs) = (root.join("ours"), root.join("theirs"));
    for folder in ["saved", "meta", "sharded"] {
        std::fs::create_dir_all(ours.join(folder)).unwrap();
    }
    write_ours(&ours);
    let Some(oracle) = OracleProcess::start("oracle.py", [&ours, &theirs]) else {
        return;
    };
    load_theirs(&theirs);
    for name in ["one", "two", "simple"] {
        extend(&theirs.join(name), &ours.join("extended").join(name));
    }
    oracle.check();
    std::fs::remove_dir_all(&root).unwrap();
}
