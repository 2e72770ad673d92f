//! Golden graphs: TensorFlow's programs, imported from files and compared with TensorFlow's results.
//!
//! `GRAPH=cond cargo test -p thalweg-tests --test engine golden_graphs::` runs those whose names begin with `cond`.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg::train::saved_model::{DEFAULT_SIGNATURE, SavedModel};
use thalweg_session::SessionOptions;
use thalweg_tensor::Tensor;
use thalweg_tests::golden_graphs::{GoldenGraph, arrays, folder, names};

/// Runs golden graphs, with inlined calls or without; panics with the failures.
fn check(names: &[String], inline_calls: bool) {
    assert!(!names.is_empty());
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut golden = GoldenGraph::read(name);
                    golden.inline_calls = inline_calls;
                    if let Err(e) = golden.check(SessionOptions::default()) {
                        wrong.lock().unwrap().push(format!("{name}: {e}"));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} of {} graphs:\n{}",
        wrong.len(),
        names.len(),
        wrong.join("\n")
    );
}

fn chosen() -> Vec<String> {
    names(&std::env::var("GRAPH").unwrap_or_default())
}

#[test]
fn golden_graphs_match_tensorflow() {
    check(&chosen(), false);
}

#[test]
fn golden_graphs_with_calls_match_tensorflow_once_they_are_inlined() {
    let calls = |name: &String| {
        let def = GoldenGraph::read(name).def;
        let functions = def.library.iter().flat_map(|l| &l.function);
        let names: BTreeSet<&str> = functions
            .filter_map(|f| Some(&*f.signature.as_ref()?.name))
            .collect();
        let called = |op: &str| names.contains(op) || op.contains("PartitionedCall");
        def.node.iter().any(|n| called(&n.op))
    };
    let mut names = chosen();
    names.retain(calls);
    // Those that a user chooses need not have calls.
    if std::env::var("GRAPH").is_err() || !names.is_empty() {
        check(&names, true);
    }
}

#[test]
fn a_saved_model_fills_its_tables_from_its_assets_its_graph_and_its_checkpoint() {
    let model = SavedModel::load(folder().join("saved_model_tables")).unwrap();
    let words = Tensor::strings(&[4], &["fox", "dog", "the", ""]).unwrap();
    let found = model.run(DEFAULT_SIGNATURE, &[("words", words)]).unwrap();
    let expected = arrays(&folder().join("saved_model_tables.npz"));
    for (name, key) in [
        ("ids", "s0/r0"),
        ("weighted", "s0/r1"),
        ("counted", "s0/r2"),
    ] {
        assert_eq!(found[name], expected[key], "{name}");
    }
}
