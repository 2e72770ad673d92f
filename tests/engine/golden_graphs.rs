//! Golden graphs: TensorFlow's programs, imported from files and compared with TensorFlow's results.
//!
//! `GRAPH=cond cargo test -p thalweg-tests --test engine golden_graphs::` runs those whose names begin with `cond`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg_session::SessionOptions;
use thalweg_tests::golden_graphs::{GoldenGraph, names};

/// Runs every golden graph; panics with the failures.
fn check(options: impl Fn() -> SessionOptions + Sync) {
    let names = names(&std::env::var("GRAPH").unwrap_or_default());
    assert!(!names.is_empty());
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(e) = GoldenGraph::read(name).check(options()) {
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

#[test]
fn golden_graphs_match_tensorflow() {
    check(SessionOptions::default);
}

#[test]
fn golden_graphs_with_functions_match_tensorflow_once_calls_are_inlined() {
    let mut checked = 0;
    for name in names("") {
        let mut golden = GoldenGraph::read(&name);
        let library = golden.def.library.iter().map(|l| l.function.len());
        if library.sum::<usize>() > 0 {
            golden.inline_calls = true;
            let found = golden.check(SessionOptions::default());
            found.unwrap_or_else(|e| panic!("{name}: {e}"));
            checked += 1;
        }
    }
    assert!(checked > 5, "{checked}");
}
