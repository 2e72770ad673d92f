//! Golden graphs: TensorFlow's programs, imported from files and compared with TensorFlow's results.
//!
//! `GRAPH=cond cargo test -p thalweg-tests --test engine golden_graphs::` runs those whose names begin with `cond`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg::prelude::*;
use thalweg::train::saved_model::{DEFAULT_SIGNATURE, SavedModel};
use thalweg_session::{SessionError, SessionOptions};
use thalweg_tensor::Tensor;
use thalweg_tests::golden_graphs::{GoldenGraph, Step, arrays, code, folder, names};

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

/// The number of steps of a golden graph whose plans have a node of this op.
fn steps_with(op: &str, name: &str) -> usize {
    let (golden, graph) = (GoldenGraph::read(name), Graph::new());
    let found = Cell::new(0);
    let open = |graph| {
        let found = &found;
        let session = Session::new(graph).map_err(|e| e.to_string())?;
        let step: Step<'_> = Box::new(
            move |fetches: (Vec<Output<'_>>, Vec<Operation<'_>>), feeds| {
                let plan = session.explain(fetches.clone(), feeds);
                let done = session.step(fetches, feeds);
                match plan {
                    Ok(plan) => {
                        let here = plan.contains(&format!("= {op}("));
                        found.set(found.get() + usize::from(here));
                    }
                    Err(e) => assert!(done.is_err(), "a step without a plan ran: {e}"),
                }
                done.map_err(|e| (code(&e), e.to_string()))
            },
        );
        Ok(step)
    };
    golden.check_on(&graph, |_| {}, open).unwrap();
    found.get()
}

#[test]
fn loops_and_conditionals_of_tensorflow_are_compiled() {
    let compiled = [
        "case_v1",
        "checks",
        "cond_v1_outside",
        "lstm_dynamic_rnn_v1",
        "lstm_while_v1",
        "pruned_branches",
        "pruned_loops",
        "tables_in_loops",
        "while_branches_v1",
        "while_nested_v1",
        "while_updates_v1",
    ];
    for name in compiled {
        assert_eq!(steps_with("_Region", name), 0, "{name}");
    }
    // Enter and Exit without a condition, and an Exit of a Merge's index.
    assert_ne!(steps_with("_Region", "while_raw"), 0);
}

#[test]
fn products_of_a_loops_gradient_follow_the_loop() {
    for name in ["while_weights_v1", "while_weights_v2"] {
        assert_eq!(steps_with("TensorListConcatV2", name), 4, "{name}");
    }
}

#[test]
fn errors_in_compiled_control_flow_name_nodes_of_the_graph() {
    let (golden, graph) = (GoldenGraph::read("untaken_branches"), Graph::new());
    let failed = Cell::new(0);
    let open = |graph| {
        let failed = &failed;
        let session = Session::new(graph).map_err(|e| e.to_string())?;
        let step: Step<'_> = Box::new(move |fetches, feeds| {
            session.step(fetches, feeds).map_err(|e| {
                if let SessionError::Kernel { node, .. } = &e {
                    assert!(session.graph().find(node).is_some(), "{e}");
                    assert!(!e.to_string().contains("in function"), "{e}");
                    failed.set(failed.get() + 1);
                }
                (code(&e), e.to_string())
            })
        });
        Ok(step)
    };
    golden.check_on(&graph, |_| {}, open).unwrap();
    assert_ne!(failed.get(), 0);
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
