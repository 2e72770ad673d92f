//! Text and Graphviz DOT dumps of a graph.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", [-1]);
//! let _y = (x + x).named("y");
//!
//! let text = g.snapshot().to_text();
//! assert_eq!(text.lines().last(), Some("y = AddV2(x:0, x:0) {T=f32, scale=1.0} -> f32[?]"));
//! // For Graphviz: `dot -Tsvg graph.dot`.
//! assert!(g.snapshot().to_dot().starts_with("digraph"));
//! ```

use std::fmt::Write;

use crate::data::GraphData;
use crate::op::Effect;

impl GraphData {
    /// One line a node, in the order of building:
    /// `name = Op(inputs; ^controls) {attrs} @device -> facts`.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (_, node) in self.nodes() {
            let mut args: Vec<String> = node.inputs.iter().map(|&i| self.output_name(i)).collect();
            args.extend(
                node.controls
                    .iter()
                    .map(|&c| format!("^{}", self.node(c).name)),
            );
            let attrs: Vec<String> = node
                .attrs
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let facts: Vec<String> = node.outputs.iter().map(ToString::to_string).collect();
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "{} = {}({})",
                node.name,
                node.op.name,
                args.join(", ")
            );
            if !attrs.is_empty() {
                let _ = write!(text, " {{{}}}", attrs.join(", "));
            }
            if !node.device.is_empty() {
                let _ = write!(text, " @{}", node.device);
            }
            for with in &node.colocation {
                let _ = write!(text, " with {with}");
            }
            if !facts.is_empty() {
                let _ = write!(text, " -> {}", facts.join(", "));
            }
            text.push('\n');
        }
        text
    }

    /// The graph in DOT: values as solid edges, control dependencies as dashed ones; variables,
    /// updates, feeds, sends and receives are coloured.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from(DOT_HEAD);
        self.write_dot(&mut dot, "n");
        dot.push_str("}\n");
        dot
    }

    /// Writes this graph's nodes and edges into a DOT graph; node names are `prefix` and the node's
    /// number.
    pub fn write_dot(&self, dot: &mut String, prefix: &str) {
        for (id, node) in self.nodes() {
            let colour = colour(node.op.effect);
            let number = id.index();
            // Writing to a String cannot fail.
            let _ = writeln!(
                dot,
                "  {prefix}{number} [label={:?}, fillcolor={colour:?}];",
                format!("{}\n{}", node.name, node.op.name)
            );
            for input in &node.inputs {
                let label = self.fact(*input).map_or(String::new(), ToString::to_string);
                let from = input.node.index();
                let _ = writeln!(
                    dot,
                    "  {prefix}{from} -> {prefix}{number} [label={label:?}, fontsize=9];"
                );
            }
            for control in &node.controls {
                let from = control.index();
                let _ = writeln!(dot, "  {prefix}{from} -> {prefix}{number} [style=dashed];");
            }
        }
    }
}

/// Fill colour of a node in a picture.
pub fn colour(effect: Effect) -> &'static str {
    match effect {
        Effect::Handle | Effect::Read => "#cfe8cf",
        Effect::Write => "#f6d5c5",
        Effect::Feed => "#cfdff2",
        Effect::Random => "#efe3f5",
        Effect::Send | Effect::Recv | Effect::Flow => "#fdf3c4",
        Effect::Stateful | Effect::Blocking | Effect::Collective => "#f6d5c5",
        Effect::Pure | Effect::Control => "white",
    }
}

/// The head of a DOT graph.
pub const DOT_HEAD: &str = "digraph thalweg {\n  rankdir=BT;\n  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"];\n";
