//! Random graphs that TensorFlow made and ran give the same here.
//!
//! `tests/golden/differential/generate.py` makes batches; `BATCH=FILE cargo test --release --test
//! random_imports` runs one, `SEED=N` one graph of it. Without `BATCH` it is the committed one: seeds
//! that once found something.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use serde_json::Value;
use support::golden::{Tolerance, difference, tensor};
use thalweg::prelude::*;
use thalweg_graphdef::{ImportOptions, import};

fn decoded(text: &Value) -> Vec<u8> {
    let engine = base64::engine::general_purpose::STANDARD;
    engine.decode(text.as_str().unwrap()).unwrap()
}

/// A tensor as the batches have them.
fn value(v: &Value) -> Tensor {
    let Some(strings) = v["base64"].as_array() else {
        return tensor(v);
    };
    let dims = v["dims"].as_array().unwrap().iter();
    let dims: Vec<usize> = dims.map(|d| d.as_u64().unwrap() as usize).collect();
    let strings: Vec<Vec<u8>> = strings.iter().map(decoded).collect();
    Tensor::strings(&dims, &strings).unwrap()
}

/// What is wrong with a graph.
fn check(line: &Value) -> Result<(), String> {
    let def: thalweg_graphdef::GraphDef =
        prost::Message::decode(&decoded(&line["graph"])[..]).map_err(|e| e.to_string())?;
    let graph = Graph::new();
    let options = ImportOptions {
        origin: format!("seed {}", line["seed"]),
        ..ImportOptions::default()
    };
    let imported = import(&graph, &def, &options).map_err(|e| e.to_string())?;
    let session = Session::new(&graph).map_err(|e| e.to_string())?;
    let names = |key: &str| -> Vec<String> {
        let all = line[key].as_array().into_iter().flatten();
        all.map(|n| n.as_str().unwrap().to_owned()).collect()
    };
    let operation = |name: &String| imported.operation(name).ok_or(format!("no op {name}"));
    let output = |name: &String| imported.output(name).ok_or(format!("no output {name}"));
    for name in names("init") {
        let run = session.run(operation(&name)?, []);
        run.map_err(|e| format!("init: {e}"))?;
    }
    let mut feeds = Vec::new();
    for (name, v) in line["feeds"].as_object().unwrap() {
        feeds.push(output(name)?.feed(value(v)));
    }
    let fetches = names("fetches");
    let outputs: Vec<Output<'_>> = fetches.iter().map(output).collect::<Result<_, _>>()?;
    let targets: Vec<Operation<'_>> = names("targets")
        .iter()
        .map(operation)
        .collect::<Result<_, _>>()?;
    for (step, results) in line["results"].as_array().unwrap().iter().enumerate() {
        let fetched = session.run((&outputs, &targets), &feeds);
        let fetched = fetched.map_err(|e| format!("step {step}: {e}"))?;
        for (i, expected) in results.as_array().unwrap().iter().enumerate() {
            let tolerance = Tolerance {
                rel: line["tolerance"][i]["rel"].as_f64().unwrap(),
                abs: line["tolerance"][i]["abs"].as_f64().unwrap(),
            };
            let found = fetched.tensor(i).map_err(|e| e.to_string())?;
            if let Some(text) = difference(found, &value(expected), tolerance) {
                return Err(format!("step {step}, {}: {text}", fetches[i]));
            }
        }
    }
    Ok(())
}

#[test]
fn random_graphs_give_what_tensorflow_gives() {
    let committed = support::root().join("tests/golden/random_graphs.jsonl.gz");
    let file = std::env::var_os("BATCH").map_or(committed, Into::into);
    let file = std::fs::File::open(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let lines = Mutex::new(BufReader::new(flate2::read::GzDecoder::new(file)).lines());
    let only: Option<u64> = std::env::var("SEED").ok().map(|s| s.parse().unwrap());
    let (count, wrong) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(line) = lines.lock().unwrap().next() else {
                        return;
                    };
                    let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
                    let seed = line["seed"].as_u64().unwrap();
                    if only.is_some_and(|s| s != seed) {
                        continue;
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    let checked = std::panic::catch_unwind(|| check(&line));
                    let checked = checked.unwrap_or_else(|_| Err("it panics".to_owned()));
                    if let Err(e) = checked {
                        wrong.lock().unwrap().insert(seed, e);
                    }
                }
            });
        }
    });
    let (count, wrong) = (count.into_inner(), wrong.into_inner().unwrap());
    println!("{count} graphs, {} differ", wrong.len());
    assert!(count > 0, "no graph was compared");
    let lines: Vec<String> = wrong
        .iter()
        .map(|(s, e)| format!("seed {s}: {e}"))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {count} graphs:\n{}",
        wrong.len(),
        lines.join("\n")
    );
}
