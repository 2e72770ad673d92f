//! Names, scopes, control dependencies, collections and seeds.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use support::{constant, graph, placeholder};
use thalweg_graph::graph::nearest_name;
use thalweg_graph::{Graph, NodeId, Reason, gradients};

/// Replays lines of `names.txt` until the scope is left; returns the number of names compared.
fn replay(g: &Graph, lines: &mut std::str::Lines<'_>) -> usize {
    let mut compared = 0;
    while let Some(line) = lines.next() {
        if let Some(scope) = line.strip_prefix("enter ") {
            compared += g.name_scope(scope, || replay(g, lines));
        } else if line == "leave" {
            return compared;
        } else {
            let (name, expected) = line
                .strip_prefix("op ")
                .unwrap()
                .split_once(" => ")
                .unwrap();
            assert_eq!(g.op("NoOp").name(name).build().name(), expected);
            compared += 1;
        }
    }
    compared
}

/// The file is made by `golden/names.py`.
#[test]
fn scoped_names_match_tensorflow() {
    let g = graph();
    let compared = replay(&g, &mut include_str!("golden/names.txt").lines());
    assert!(compared > 300, "{compared}");
    assert!(g.errors().is_empty());
}

#[test]
fn nodes_are_found_by_name() {
    let g = graph();
    let x = g.name_scope("outer", || placeholder(&g, "x", []));
    assert_eq!(g.find("outer/x").unwrap().id(), x.id().node);
    assert!(g.find("x").is_none());
    assert_eq!(x.name(), "outer/x:0");
}

#[test]
fn a_scope_ends_with_its_closure_even_by_a_panic() {
    let g = graph();
    let x = constant(&g, 1.0f32);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        g.name_scope("a", || {
            g.control_dependencies([x], || {
                g.without_control_dependencies(|| g.extend(|| panic!("in a closure")))
            })
        })
    }));
    assert!(panicked.is_err());
    let y = constant(&g, 2.0f32);
    assert_eq!(y.name(), "Const_1:0");
    assert!(g.snapshot().node(y.id().node).controls.is_empty());
}

#[test]
fn nested_control_dependencies_add_up_and_can_be_cleared() {
    let g = graph();
    let (a, b) = (constant(&g, 1.0f32), constant(&g, 2.0f32));
    let controls = |build: &dyn Fn() -> NodeId| {
        let id = build();
        g.snapshot().node(id).controls.clone()
    };
    let node = || g.op("NoOp").control(a).build().id();
    let found = g.control_dependencies([a], || g.control_dependencies([b, a], || controls(&node)));
    assert_eq!(found[..], [a.id().node, b.id().node]);
    let found = g.control_dependencies([b], || g.without_control_dependencies(|| controls(&node)));
    assert_eq!(found[..], [a.id().node]);
    let found = g.control_dependencies([b], || {
        g.without_control_dependencies(|| {});
        controls(&node)
    });
    assert_eq!(found[..], [a.id().node, b.id().node]);
}

#[test]
fn collections_keep_their_order() {
    let g = graph();
    let (a, b) = (constant(&g, 1.0f32), constant(&g, 2.0f32));
    g.add_to_collection("losses", b);
    g.add_to_collection("losses", a);
    g.add_to_collection("losses", b);
    let ids: Vec<_> = g.collection("losses").iter().map(|o| o.id()).collect();
    assert_eq!(ids, [b.id(), a.id(), b.id()]);
    assert!(g.collection("nothing").is_empty());
    // Operations under the same key are separate from outputs.
    g.add_operation_to_collection("losses", a.operation());
    let ids: Vec<_> = g.operations_in("losses").iter().map(|o| o.id()).collect();
    assert_eq!(ids, [a.id().node]);
    assert_eq!(g.collection("losses").len(), 3);
    assert!(g.operations_in("nothing").is_empty());
}

#[test]
fn a_graph_has_one_extension_of_each_type() {
    let (g, other) = (graph(), graph());
    g.extension(|names: &mut Vec<String>| names.push("a".to_owned()));
    // Its user may build in the graph.
    let name = |names: &mut Vec<String>| constant(&g, 1.0f32).named(&names[0]).name();
    assert_eq!(g.extension(name), "a:0");
    assert_eq!(g.extension(|numbers: &mut Vec<u32>| numbers.len()), 0);
    assert_eq!(other.extension(|names: &mut Vec<String>| names.len()), 0);
}

#[test]
fn nodes_of_a_body_are_not_nodes_of_its_graph() {
    let g = graph();
    let body = g.body("branch");
    assert!(!g.is_in_body() && body.is_in_body());
    assert!(g.build_in(body, || g.is_in_body()));
    assert!(!g.is_in_body());
}

/// TensorFlow's rule, in `random_seed.get_seed`.
#[test]
fn seeds_come_from_the_graph_and_the_op() {
    let g = graph();
    assert_eq!(g.seeds(None), (0, 0));
    assert_eq!(g.seeds(Some(5)), (87_654_321, 5));
    constant(&g, 1.0f32);
    constant(&g, 1.0f32);
    g.set_seed(3);
    assert_eq!(g.seeds(None), (3, 2));
    assert_eq!(g.seeds(Some(9)), (3, 9));
    g.set_seed(0);
    assert_eq!(g.seeds(Some(0)), (0, i64::from(i32::MAX)));
}

#[test]
fn versions_grow_with_every_addition_and_with_nothing_else() {
    let g = graph();
    let before = g.version();
    let x = constant(&g, 1.0f32);
    assert!(g.version() > before);
    let before = g.version();
    let _ = (x.name(), g.snapshot(), g.find("Const"));
    let _ = g.op("Nonsense").build();
    assert_eq!(g.version(), before);
}

#[test]
fn snapshots_do_not_change() {
    let g = graph();
    let x = constant(&g, 1.0f32);
    let snapshot = g.snapshot();
    let _ = x + 1.0;
    assert_eq!(snapshot.len(), 1);
    assert_eq!(g.snapshot().len(), 3);
}

#[test]
fn the_nearest_name_is_offered_only_if_it_is_near() {
    let names = ["MatMul", "Conv2D", "Softmax"];
    let near = |name| nearest_name(name, names.into_iter());
    assert_eq!(near("matmul"), Some("MatMul"));
    assert_eq!(near("Conv2d_"), Some("Conv2D"));
    assert_eq!(near("SoftMax"), Some("Softmax"));
    assert_eq!(near("Transpose"), None);
    assert_eq!(near(""), None);
    assert_eq!(nearest_name("x", [].into_iter()), None);
}

#[test]
fn a_missing_gradient_is_an_error_of_its_node() {
    let g = graph();
    let x = placeholder(&g, "x", []);
    let y = g.op("Twice").input(x).name("both").output();
    gradients(&[y], &[x]);
    let errors = g.errors();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        (errors[0].node.as_str(), &errors[0].reason),
        ("both", &Reason::NoGradient)
    );
}

#[test]
fn a_long_chain_of_nodes_does_not_overflow_the_stack() {
    let g = graph();
    let mut x = placeholder(&g, "x", []);
    let start = x;
    for _ in 0..20_000 {
        x = g.op("Identity").input(x).output();
    }
    let data = g.snapshot();
    let needed = data.needed([x.id().node], |_| false);
    assert_eq!(data.topological_order(&needed).len(), 20_001);
    assert_eq!(
        data.needed([x.id().node], |o| o == start.id())
            .iter()
            .filter(|n| **n)
            .count(),
        20_000
    );
}
