//! Import of loops.

#[path = "support/registry.rs"]
mod registry;
mod support;

use registry::graph;
use support::*;
use thalweg_graphdef::messages::DataType::DtInt32;
use thalweg_graphdef::messages::NodeDef;
use thalweg_graphdef::{ImportError, ImportOptions, Problem, import};

#[test]
fn loops_are_closed() {
    for swapped in [false, true] {
        let mut def = counting_loop();
        if swapped {
            def.node[2].input.reverse();
        }
        let g = graph();
        import(&g, &def, &ImportOptions::default()).unwrap();
        let data = g.snapshot();
        let merge = data.node(g.find("merge").unwrap().id());
        let next = g.find("next").unwrap().output(0).id();
        assert_eq!(merge.inputs[usize::from(!swapped)], next);
        let names: Vec<&str> = data.nodes().map(|(_, n)| &*n.name).collect();
        assert_eq!(names, ["x", "enter", "merge", "sum", "next", "turn"]);
    }
}

#[test]
fn a_loop_is_closed_by_what_its_merge_takes() {
    let fails = |change: &dyn Fn(&mut Vec<NodeDef>)| {
        let mut def = counting_loop();
        change(&mut def.node);
        let g = graph();
        let error = import(&g, &def, &ImportOptions::default()).unwrap_err();
        assert!(g.snapshot().is_empty());
        error
    };
    // Another dtype than the loop starts with.
    let error = fails(&|nodes| {
        nodes[0] = node("next", "NextIteration", &["turn"], &[t(DtInt32)]);
    });
    assert!(matches!(error, ImportError::Graph(_)), "{error}");
    // An output that a NextIteration does not have.
    let error = fails(&|nodes| nodes[2].input[1] = "next:1".into());
    assert!(
        matches!(
            error,
            ImportError::Node {
                problem: Problem::NoOutput { .. },
                ..
            }
        ),
        "{error}"
    );
    // A cycle without a Merge.
    let error = fails(&|nodes| nodes[2].op = "AddV2".into());
    assert!(
        matches!(
            error,
            ImportError::Cycle { .. } | ImportError::Attributes { .. }
        ),
        "{error}"
    );
    // A control input is never a back edge.
    let error = fails(&|nodes| nodes[2].input.push("^next".into()));
    assert!(matches!(error, ImportError::Cycle { .. }), "{error}");
}
