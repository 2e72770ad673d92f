//! Folded graphs: the nodes of each scope as one box, for pictures.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", [-1]);
//! let y = g.name_scope("layer", || (x + x) + x);
//! let _ = (y + y).named("sum");
//!
//! let data = g.snapshot();
//! let folded = data.folded(1);
//! let names: Vec<&str> = folded.boxes.iter().map(|b| &*b.name).collect();
//! assert_eq!(names, ["x", "layer", "sum"]);
//! assert_eq!(folded.edges.len(), 2);
//! assert!(folded.to_dot(&data).contains("layer/\\n2 nodes"));
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use crate::data::GraphData;
use crate::dump::{DOT_HEAD, colour};
use crate::node::{Node, NodeId, OutputId};
use crate::op::Effect;

/// A graph with the nodes of each scope in one box.
#[derive(Clone, Debug, Default)]
pub struct FoldedGraph {
    /// The boxes, in the order of their first nodes.
    pub boxes: Vec<FoldedBox>,
    /// The edges between boxes.
    pub edges: Vec<FoldedEdge>,
}

/// A scope, or a node.
#[derive(Clone, Debug)]
pub struct FoldedBox {
    /// The scope, or the node's name.
    pub name: String,
    /// Its nodes; a single one if it is no scope.
    pub nodes: Vec<NodeId>,
    /// `true` for a scope.
    pub is_scope: bool,
    /// `true` if it lies outside of the scope that is shown.
    pub is_outside: bool,
}

/// The edges from one box to another.
#[derive(Clone, Debug)]
pub struct FoldedEdge {
    /// Index of the box of the outputs.
    pub from: usize,
    /// Index of the box that uses them.
    pub to: usize,
    /// The outputs that are used, each once.
    pub values: BTreeSet<OutputId>,
    /// Number of control dependencies.
    pub controls: usize,
}

/// A box's name, whether it is a scope, and whether it is outside.
type BoxKey<'d> = (&'d str, bool, bool);

impl GraphData {
    /// The scopes of the nodes, with those around them.
    pub fn scopes(&self) -> BTreeSet<&str> {
        let mut scopes = BTreeSet::new();
        for (_, node) in self.nodes() {
            let mut rest = &*node.name;
            while let Some((scope, _)) = rest.rsplit_once('/') {
                if !scopes.insert(scope) {
                    break;
                }
                rest = scope;
            }
        }
        scopes
    }

    /// The graph with its scopes folded that are `depth` names deep: at depth 1 the outermost ones. Constants have no box
    /// of their own.
    pub fn folded(&self, depth: usize) -> FoldedGraph {
        let scopes = self.scopes();
        self.folded_by(|name| {
            let end = name
                .match_indices('/')
                .nth(depth.max(1) - 1)
                .map(|(at, _)| at);
            Some(match end {
                Some(end) => (&name[..end], true, false),
                None => (name, scopes.contains(name), false),
            })
        })
    }

    /// The nodes of a scope with its inner scopes folded, and the boxes outside whose nodes share an edge with its own.
    /// The scope `""` is the whole graph.
    pub fn folded_scope(&self, scope: &str) -> FoldedGraph {
        let scopes = self.scopes();
        let folded = self.folded_by(|name| Some(child(name, scope, &scopes)));
        let linked: BTreeSet<usize> = folded.edges.iter().flat_map(|e| [e.from, e.to]).collect();
        folded.retain(|at, b| !b.is_outside || linked.contains(&at))
    }

    fn folded_by<'d>(&'d self, of: impl Fn(&'d str) -> Option<BoxKey<'d>>) -> FoldedGraph {
        let mut boxes: Vec<FoldedBox> = Vec::new();
        let mut index: HashMap<BoxKey<'d>, usize> = HashMap::new();
        let mut of_node: Vec<Option<usize>> = Vec::new();
        for (id, node) in self.nodes() {
            let key = of(&node.name);
            let key = key.filter(|&(_, is_scope, _)| is_scope || !is_constant(node));
            let at = key.map(|key| {
                let (name, is_scope, is_outside) = key;
                let at = *index.entry(key).or_insert_with(|| {
                    boxes.push(FoldedBox {
                        name: name.to_owned(),
                        nodes: Vec::new(),
                        is_scope,
                        is_outside,
                    });
                    boxes.len() - 1
                });
                boxes[at].nodes.push(id);
                at
            });
            of_node.push(at);
        }
        let mut edges: BTreeMap<(usize, usize), FoldedEdge> = BTreeMap::new();
        let mut edge = |from: NodeId, to: NodeId, value: Option<OutputId>| {
            let (Some(from), Some(to)) = (of_node[from.index()], of_node[to.index()]) else {
                return;
            };
            if from == to || (boxes[from].is_outside && boxes[to].is_outside) {
                return;
            }
            let edge = edges.entry((from, to)).or_insert_with(|| FoldedEdge {
                from,
                to,
                values: BTreeSet::new(),
                controls: 0,
            });
            match value {
                Some(value) => _ = edge.values.insert(value),
                None => edge.controls += 1,
            }
        };
        for (id, node) in self.nodes() {
            node.inputs.iter().for_each(|&i| edge(i.node, id, Some(i)));
            node.controls.iter().for_each(|&c| edge(c, id, None));
        }
        FoldedGraph {
            boxes,
            edges: edges.into_values().collect(),
        }
    }
}

/// The box of a node where this scope is shown: below it the next scope or the node; outside of it the one beside the
/// scope, or beside one of those around it.
fn child<'d>(name: &'d str, scope: &str, scopes: &BTreeSet<&str>) -> BoxKey<'d> {
    let mut shown = scope.split('/').filter(|s| !s.is_empty());
    let (mut start, mut is_inside) = (0, false);
    // Past the names that both have.
    loop {
        let part = name[start..].split('/').next().unwrap_or_default();
        match shown.next() {
            None => is_inside = true,
            Some(next) if next == part => {
                if name.len() == start + part.len() {
                    // The node has the name of the scope, or of one around it.
                    return (name, false, shown.next().is_some());
                }
                start += part.len() + 1;
                continue;
            }
            Some(_) => {}
        }
        let end = start + part.len();
        let is_scope = end < name.len() || scopes.contains(name);
        return (&name[..end], is_scope, !is_inside);
    }
}

/// `true` if a node gives the same value in each step.
fn is_constant(node: &Node) -> bool {
    node.op.effect == Effect::Pure && node.inputs.is_empty() && node.controls.is_empty()
}

impl FoldedGraph {
    /// The boxes that `keep` keeps, with the edges between them.
    fn retain(self, keep: impl Fn(usize, &FoldedBox) -> bool) -> FoldedGraph {
        let mut moved = vec![None; self.boxes.len()];
        let mut boxes = Vec::new();
        for (at, b) in self.boxes.into_iter().enumerate() {
            if keep(at, &b) {
                moved[at] = Some(boxes.len());
                boxes.push(b);
            }
        }
        let edges = self.edges.into_iter().filter_map(|e| {
            let (from, to) = moved[e.from].zip(moved[e.to])?;
            Some(FoldedEdge { from, to, ..e })
        });
        FoldedGraph {
            edges: edges.collect(),
            boxes,
        }
    }

    /// The graph in DOT, for Graphviz: scopes with thick borders, edges with the shape of their value or the number of
    /// values, control dependencies dashed.
    pub fn to_dot(&self, data: &GraphData) -> String {
        let mut dot = String::from(DOT_HEAD);
        for (at, b) in self.boxes.iter().enumerate() {
            let (label, fill, width) = match (b.is_scope, b.nodes.first()) {
                (false, Some(&id)) => {
                    let node = data.node(id);
                    (
                        format!("{}\n{}", b.name, node.op.name),
                        colour(node.op.effect),
                        1,
                    )
                }
                _ => (
                    format!("{}/\n{} nodes", b.name, b.nodes.len()),
                    "#f2f2f2",
                    2,
                ),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(
                dot,
                "  n{at} [label={label:?}, fillcolor={fill:?}, penwidth={width}];"
            );
        }
        for edge in &self.edges {
            let (from, to, label) = (edge.from, edge.to, edge.label(data));
            let style = if edge.values.is_empty() {
                "dashed"
            } else {
                "solid"
            };
            let _ = writeln!(
                dot,
                "  n{from} -> n{to} [label={label:?}, fontsize=9, style={style}];"
            );
        }
        dot.push_str("}\n");
        dot
    }
}

impl FoldedEdge {
    /// Dtype and shape of its value, or the number of values; empty for control dependencies.
    pub fn label(&self, data: &GraphData) -> String {
        match (self.values.first(), self.values.len()) {
            (Some(&value), 1) => data
                .fact(value)
                .map_or_else(String::new, ToString::to_string),
            (None, _) => String::new(),
            (_, n) => format!("{n} values"),
        }
    }
}
