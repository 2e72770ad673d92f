//! A graph as text and as DOT.

mod support;

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
