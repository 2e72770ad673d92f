//! Models of Keras and TensorFlow 2: loaded with inlined calls, cut, trained, frozen and written, with TensorFlow's
//! results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use thalweg_graph::Output;
use thalweg_graphdef::file;
use thalweg_graphdef::freeze::variables_of;
use thalweg_ops::{ArrayOps, LinalgOps, MathOps, ReduceOps, StateOps};
use thalweg_optim::{GradientDescent, Optimizer};
use thalweg_session::{Feed, Feeding};
use thalweg_tensor::Tensor;
use thalweg_train::saved_model::{DEFAULT_SIGNATURE, LoadOptions, SavedModel};
use thalweg_train::{ModelOptions, freeze, save_model};

#[path = "exported_models/oracle_process.rs"]
mod oracle_process;

use oracle_process::OracleProcess;

/// Steps and rate of the training on both sides.
const STEPS: usize = 3;
const RATE: f32 = 0.1;

fn floats(value: &Value) -> Vec<f32> {
    let all = value.as_array().unwrap().iter();
    all.map(|v| v.as_f64().unwrap() as f32).collect()
}

fn inputs(told: &Value) -> BTreeMap<String, Tensor> {
    let names = told["names"].as_array().unwrap().iter();
    let values = told["inputs"].as_array().unwrap().iter();
    let tensor = |value: &Value| {
        let dims: Vec<usize> = floats(&value[0]).iter().map(|&d| d as usize).collect();
        Tensor::new(&dims, &floats(&value[1])).unwrap()
    };
    let named = names.map(|n| n.as_str().unwrap().to_owned());
    named.zip(values.map(tensor)).collect()
}

fn close(what: &str, found: &Tensor, wanted: &[f32]) {
    let found = found.as_slice::<f32>().unwrap();
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-5, "{what}: {found}, {wanted}");
    }
}

/// Loads a model, compares it, freezes it, trains it, cuts it, and writes it.
fn check(name: &str, told: &Value, theirs: &Path, ours: &Path) {
    let model = SavedModel::load_with(theirs, &LoadOptions::new().inline_calls(true)).unwrap();
    let signature = told["signature"].as_str().unwrap_or(DEFAULT_SIGNATURE);
    let (session, signature) = (model.session(), model.signature(signature).unwrap());
    let g = session.graph();
    let placeholders = signature.inputs.iter().map(|(n, &o)| (&**n, g.output(o)));
    let placeholders: Vec<(&str, Output<'_>)> = placeholders.collect();
    let given = inputs(told);
    let feeds = || -> Vec<Feed<'_>> {
        let fed = placeholders.iter();
        fed.map(|(name, to)| to.feed(&given[*name])).collect()
    };
    let output = g.output(*signature.outputs.values().next().unwrap());
    let found: Tensor = session.run(output, feeds()).unwrap();
    close(name, &found, &floats(&told["output"]));

    // The variables that it needs are declared. Keras's export has each of them twice, under two names.
    let needed = variables_of(g, &[output]).unwrap();
    let needed: BTreeSet<&str> = needed.iter().map(|v| &*v.name).collect();
    let sizes = |values: Vec<(String, Output<'_>)>| -> Vec<usize> {
        let own = values.iter().filter(|(name, _)| needed.contains(&**name));
        let mut sizes: Vec<usize> = own.map(|(_, v)| v.shape().elements().unwrap()).collect();
        sizes.sort_unstable();
        sizes
    };
    let all = g.variables().into_iter();
    let all = sizes(all.map(|v| (v.name, g.output(v.value))).collect());
    let trained = g.trainable_variables().into_iter();
    let trained = sizes(trained.map(|v| (v.name().to_owned(), v.value())).collect());
    let told_sizes = |key: &str| -> Vec<usize> {
        let mut sizes: Vec<usize> = floats(&told[key]).iter().map(|&n| n as usize).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(all, told_sizes("variables"), "{name}");
    assert_eq!(trained, told_sizes("trainable"), "{name}");

    let frozen = freeze(session, &[output]).unwrap();
    std::fs::create_dir_all(ours).unwrap();
    std::fs::write(ours.join("frozen.pb"), file::encode(&frozen)).unwrap();
    let names: Vec<String> = placeholders.iter().map(|(_, o)| o.name()).collect();
    let order = told["names"].as_array().unwrap().iter();
    let order: Vec<&String> = order
        .map(|n| &names[placeholders.iter().position(|(p, _)| *n == *p).unwrap()])
        .collect();
    let told = json!({"inputs": order, "output": output.name()});
    std::fs::write(ours.join("frozen.json"), told.to_string()).unwrap();

    let loss = output.square().mean();
    let train = GradientDescent::new(RATE).minimize(loss);
    for _ in 0..STEPS {
        session.run(train, feeds()).unwrap();
    }
    let tuned = ModelOptions::new().signature(
        DEFAULT_SIGNATURE,
        placeholders.iter().copied(),
        [("output", output)],
    );
    save_model(session, ours.join("tuned"), &tuned).unwrap();
    with_a_head(&model, output, &feeds());
}

/// Cuts a model before its last matrix product, and trains a new head on the frozen rest.
fn with_a_head(model: &SavedModel, output: Output<'_>, feeds: &[Feed<'_>]) {
    let session = model.session();
    let g = session.graph();
    let data = g.snapshot();
    let needed = data.needed([output.id().node], |_| false);
    let products = data
        .nodes()
        .filter(|(id, n)| n.op.name == "MatMul" && needed[id.index()]);
    let last = products.map(|(id, _)| g.operation(id)).last().unwrap();
    let [features, weights] = last.inputs()[..] else {
        panic!("a product has two inputs")
    };
    // Also behind a Flatten of Keras, which computes its shape from that of its input.
    let width = weights.shape().dims().unwrap()[0].unwrap();
    assert_eq!(features.shape().dim(1), Some(width));
    let features = features.stop_gradient();
    let head = g.variable(
        "head",
        Tensor::new(&[width, 2], &vec![0.1f32; 2 * width]).unwrap(),
    );
    let loss = (features.matmul(head) - 1.0).square().mean();
    let train = GradientDescent::new(0.05).minimize(loss);
    session.run(head.initializer(), []).unwrap();
    let before: f32 = session.run(loss, feeds).unwrap();
    for _ in 0..20 {
        session.run(train, feeds).unwrap();
    }
    assert!(session.run::<f32>(loss, feeds).unwrap() < before);
}

#[test]
fn models_of_keras_are_cut_trained_frozen_and_written() {
    let root = std::env::temp_dir().join(format!("thalweg-keras-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let (theirs, ours) = (root.join("theirs"), root.join("ours"));
    std::fs::create_dir_all(&theirs).unwrap();
    let Some(oracle) = OracleProcess::start("keras_models.py", [&theirs, &ours]) else {
        return;
    };
    let told = std::fs::read_to_string(theirs.join("models.json")).unwrap();
    let told: BTreeMap<String, Value> = serde_json::from_str(&told).unwrap();
    for (name, told) in &told {
        check(name, told, &theirs.join(name), &ours.join(name));
    }
    oracle.check();
    std::fs::remove_dir_all(&root).unwrap();
}
