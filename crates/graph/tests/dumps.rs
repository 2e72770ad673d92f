//! A graph as text and as DOT.

mod support;

use thalweg_graph::{FoldedBox, FoldedGraph, Graph, Output};

use support::{constant, graph, placeholder};

#[test]
fn a_node_is_a_line_of_text() {
    let g = graph();
    let x = placeholder(&g, "x", [-1, 2]);
    let y = g.name_scope("layer", || x + constant(&g, [1.0f32, 2.0]));
    g.control_dependencies([y], || g.op("NoOp").name("done").build());
    assert_eq!(
        g.snapshot().to_text(),
        "x = Placeholder() {dtype=f32, shape=[?,2]} -> f32[?,2]\n\
         layer/Const = Const() {dtype=f32, value=f32[2] [1.0, 2.0]} -> f32[2]\n\
         layer/AddV2 = AddV2(x:0, layer/Const:0) {T=f32, scale=1.0} -> f32[?,2]\n\
         done = NoOp(^layer/AddV2)\n"
    );
}

#[test]
fn dot_has_a_node_for_each_node_and_an_edge_for_each_edge() {
    let g = graph();
    let x = placeholder(&g, "x", []);
    let y = x + x;
    g.op("NoOp").control(y).build();
    let dot = g.snapshot().to_dot();
    assert!(
        dot.starts_with("digraph thalweg {") && dot.ends_with("}\n"),
        "{dot}"
    );
    assert_eq!(dot.matches("[label=\"").count(), 3 + 2, "{dot}");
    assert_eq!(dot.matches("n0 -> n1").count(), 2);
    assert_eq!(dot.matches("n1 -> n2 [style=dashed]").count(), 1);
    assert!(dot.contains("\"x\\nPlaceholder\""), "{dot}");
}

#[test]
fn an_empty_graph_has_empty_text() {
    assert_eq!(graph().snapshot().to_text(), "");
}

/// The boxes of a folded graph: scopes end with a slash, boxes outside of the scope that is shown stand in parentheses.
fn boxes(folded: &FoldedGraph) -> Vec<String> {
    let name = |b: &FoldedBox| {
        let slash = if b.is_scope { "/" } else { "" };
        match b.is_outside {
            true => format!("({}{slash})", b.name),
            false => format!("{}{slash}", b.name),
        }
    };
    folded.boxes.iter().map(name).collect()
}

/// A scope with one node.
fn inner<'g>(g: &'g Graph, x: Output<'g>) -> Output<'g> {
    g.name_scope("inner", || (x + constant(g, [1.0f32])).named("add"))
}

#[test]
fn scopes_are_folded_and_opened() {
    let g = graph();
    let x = placeholder(&g, "x", [-1]);
    let a = g.name_scope("a", || {
        let h = inner(&g, x);
        (h + h).named("sum")
    });
    let b = g.name_scope("b", || inner(&g, a) + inner(&g, x));
    // A node with the name of a scope.
    let _ = (b + b).named("loss");
    let _ = g.name_scope("loss", || b + b);
    let data = g.snapshot();
    let folding = data.folding();
    assert_eq!(
        folding.scopes().iter().copied().collect::<Vec<_>>(),
        ["a", "a/inner", "b", "b/inner", "b/inner_1", "loss_1"]
    );
    let whole = folding.to_depth(1);
    assert_eq!(boxes(&whole), ["x", "a/", "b/", "loss", "loss_1/"]);
    let edges: Vec<_> = whole
        .edges
        .iter()
        .map(|e| (e.from, e.to, e.values.len()))
        .collect();
    assert_eq!(
        edges,
        [(0, 1, 1), (0, 2, 1), (1, 2, 1), (2, 3, 1), (2, 4, 1)]
    );
    let deeper = [
        "x",
        "a/inner/",
        "a/sum",
        "b/inner/",
        "b/inner_1/",
        "b/AddV2",
        "loss",
        "loss_1/AddV2",
    ];
    assert_eq!(boxes(&folding.to_depth(2)), deeper);
    assert_eq!(boxes(&folding.scope("")), boxes(&whole));
    let open = [
        "(x)",
        "(a/)",
        "b/inner/",
        "b/inner_1/",
        "b/AddV2",
        "(loss)",
        "(loss_1/)",
    ];
    assert_eq!(boxes(&folding.scope("b")), open);
    assert_eq!(
        boxes(&folding.scope("a/inner")),
        ["(x)", "a/inner/add", "(a/sum)"]
    );
    assert!(boxes(&folding.scope("none")).is_empty());
}
