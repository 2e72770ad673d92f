//! Random graphs that TensorFlow made and ran, imported and compared.
//!
//! `tests/golden/differential/generate.py` makes batches; `BATCH=FILE cargo test --release -p thalweg-tests --test
//! engine random_imports::` runs one, `SEED=N` one graph of it. Without `BATCH` it is the committed one: seeds that
//! once found an error. `REPORT=FILE` writes the compared ops and their dtypes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use serde_json::Value;
use thalweg::prelude::*;
use thalweg_graphdef::{ImportOptions, import};
use thalweg_tests::golden::{Tolerance, difference, tensor};

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

/// By op: how many graphs have it, and the dtypes of its outputs or else of its inputs.
type Coverage = BTreeMap<&'static str, (usize, BTreeSet<DType>)>;

/// Adds the ops of a graph and of its functions.
fn cover(coverage: &mut Coverage, graph: &Graph) {
    let data = graph.snapshot();
    let functions = data.functions().values();
    let bodies = functions.flat_map(|f| f.body.nodes().map(|(_, n)| (&f.body, n)));
    let own = data.nodes().map(|(_, n)| (&*data, n));
    let mut seen = BTreeSet::new();
    for (within, node) in own.chain(bodies) {
        let (count, dtypes) = coverage.entry(node.op.name).or_default();
        *count += usize::from(seen.insert(node.op.name));
        let outputs = node.outputs.iter().map(|o| o.dtype);
        let inputs = || {
            node.inputs
                .iter()
                .filter_map(|&i| Some(within.fact(i)?.dtype))
        };
        dtypes.extend(outputs);
        if node.outputs.is_empty() {
            dtypes.extend(inputs());
        }
    }
}

const HEAD: &str = "# Random graphs

`tests/golden/differential/generate.py` made these graphs, TensorFlow ran them, and `tests/engine/random_imports.rs` \
compared the results. Written by `BATCH=FILE REPORT=docs/results/random_graphs.md cargo test -p thalweg-tests --test \
engine random_imports::`.

";

/// A Markdown page of totals: graphs, ops by dtype, ops in few graphs and in none.
fn report(count: usize, wrong: usize, coverage: &Coverage) -> String {
    let registered: BTreeSet<&str> = thalweg_ops::ops().map(|op| op.def.name).collect();
    let known = coverage.iter().filter(|(op, _)| registered.contains(*op));
    let (n, all) = (known.clone().count(), registered.len());
    let mut page = format!(
        "{HEAD}{count} graphs, {n} of {all} ops: {} graphs agree, {wrong} differ.\n\n",
        count - wrong
    );
    let mut ops: BTreeMap<DType, usize> = BTreeMap::new();
    for dtype in known.clone().flat_map(|(_, (_, dtypes))| dtypes) {
        *ops.entry(*dtype).or_default() += 1;
    }
    page += "| dtype of outputs (of inputs, for ops without any) | ops |\n| --- | --- |\n";
    for (dtype, ops) in ops {
        page += &format!("| {} | {ops} |\n", dtype.name());
    }
    let few = known.filter(|(_, (graphs, _))| *graphs < 10);
    let few: Vec<&str> = few.map(|(op, _)| *op).collect();
    let rest = registered.iter().filter(|op| !coverage.contains_key(*op));
    let rest: Vec<&str> = rest.copied().collect();
    page + &format!(
        "\nIn fewer than 10 graphs: {}.\n\nIn none, but in the op table or a test of their own: {}.\n",
        few.join(", "),
        rest.join(", ")
    )
}

/// Checks a graph; an error describes the difference.
fn check(line: &Value, covered: &Mutex<Coverage>) -> Result<(), String> {
    let def: thalweg_graphdef::GraphDef =
        prost::Message::decode(&decoded(&line["graph"])[..]).map_err(|e| e.to_string())?;
    let graph = Graph::new();
    let options = ImportOptions::new().origin(format!("seed {}", line["seed"]));
    let imported = import(&graph, &def, &options).map_err(|e| e.to_string())?;
    cover(&mut covered.lock().unwrap(), &graph);
    let session = Session::new(&graph).map_err(|e| e.to_string())?;
    let names = |key: &str| -> Vec<String> {
        let all = line[key].as_array().into_iter().flatten();
        all.map(|n| n.as_str().unwrap().to_owned()).collect()
    };
    let operation = |name: &String| imported.operation(name).ok_or(format!("no op {name}"));
    let output = |name: &String| imported.output(name).ok_or(format!("no output {name}"));
    for name in names("init") {
        let run = session.step(operation(&name)?, []);
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
        let fetched = session.step((&outputs, &targets), &feeds);
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
fn random_graphs_match_tensorflow() {
    let committed = thalweg_tests::root().join("tests/golden/random_graphs.jsonl.gz");
    let file = std::env::var_os("BATCH").map_or(committed, Into::into);
    let file = std::fs::File::open(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let lines = Mutex::new(BufReader::new(flate2::read::GzDecoder::new(file)).lines());
    let only: Option<u64> = std::env::var("SEED").ok().map(|s| s.parse().unwrap());
    let (count, wrong) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let covered = Mutex::new(Coverage::new());
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
                    let checked = std::panic::catch_unwind(|| check(&line, &covered));
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
    if let Some(file) = std::env::var_os("REPORT") {
        let page = report(count, wrong.len(), &covered.into_inner().unwrap());
        std::fs::write(thalweg_tests::root().join(file), page).unwrap();
    }
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
