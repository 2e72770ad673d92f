//! TensorFlow's programs in sessions with a GPU.

use thalweg_tests::golden_graphs::{GoldenGraph, names};
use thalweg_tests::test_gpu;

/// Graphs with a step that a GPU refuses: a loop or a region that the host has to run updates a variable of the GPU,
/// or a variable has no known shape.
const REFUSED: [&str; 5] = [
    "dead_values",
    "old_variables",
    "references_at_the_end",
    "untaken_branches",
    "while_raw",
];

#[test]
fn tensorflows_graphs_match_with_a_gpu() {
    let Some(gpu) = test_gpu::gpu() else { return };
    let prefix = std::env::var("GRAPH").unwrap_or_default();
    let (all, mut wrong) = (names(&prefix), Vec::new());
    assert!(!all.is_empty());
    for name in all {
        let options = gpu.options().soft_placement(true);
        match GoldenGraph::read(&name).check(options) {
            Ok(()) if REFUSED.contains(&&*name) => wrong.push(format!("{name}: it runs now")),
            Err(e) if !REFUSED.contains(&&*name) || !e.contains("on a CPU") => {
                wrong.push(format!("{name}: {e}"));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
