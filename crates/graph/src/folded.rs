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
//! let folded = data.folding().to_depth(1);
//! let names: Vec<&str> = folded.boxes.iter().map(|b| &*b.name).collect();
//! assert_eq!(names, ["x", "layer", "sum"]);
//! assert_eq!(folded.edges.len(), 2);
//! assert!(folded.to_dot(&data).contains("layer/\\n2 nodes"));
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::ops::Bound;

use thalweg_tensor::text::counted;

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

/// The scopes of a graph, from which it is folded in several ways.
pub struct Folding<'d> {
    data: &'d GraphData,
    scopes: BTreeSet<&'d str>,
    /// The nodes by name: those of a scope lie side by side.
    by_name: BTreeMap<&'d str, NodeId>,
    /// For each node those that use it.
    users: Vec<Vec<NodeId>>,
}

impl GraphData {
    /// The scopes of this graph, to fold it.
    pub fn folding(&self) -> Folding<'_> {
        let mut scopes = BTreeSet::new();
        let mut users = vec![Vec::new(); self.len()];
        for (id, node) in self.nodes() {
            let mut rest = &*node.name;
            while let Some((scope, _)) = rest.rsplit_once('/') {
                if !scopes.insert(scope) {
                    break;
                }
                rest = scope;
            }
            let inputs = node.inputs.iter().map(|i| i.node);
            for from in inputs.chain(node.controls.iter().copied()) {
                let of: &mut Vec<NodeId> = &mut users[from.index()];
                if of.last() != Some(&id) {
                    of.push(id);
                }
            }
        }
        Folding {
            data: self,
            scopes,
            by_name: self.nodes().map(|(id, node)| (&*node.name, id)).collect(),
            users,
        }
    }
}

impl<'d> Folding<'d> {
    /// The scopes of the nodes, with those around them.
    pub fn scopes(&self) -> &BTreeSet<&'d str> {
        &self.scopes
    }

    /// The graph with its scopes folded that are `depth` names deep: at depth 1 the outermost ones. Constants have no box
    /// of their own.
    pub fn to_depth(&self, depth: usize) -> FoldedGraph {
        let all: Vec<NodeId> = self.data.ids().collect();
        self.fold(&all, |name| {
            let end = name.match_indices('/').nth(depth.max(1) - 1);
            match end {
                Some((end, _)) => (&name[..end], true, false),
                None => (name, self.scopes.contains(name), false),
            }
        })
    }

    /// The nodes of a scope with its inner scopes folded, and the boxes outside whose nodes share an edge with its own.
    /// The scope `""` is the whole graph.
    pub fn scope(&self, scope: &str) -> FoldedGraph {
        let inside = self.nodes_of(scope);
        let mut all: BTreeSet<NodeId> = inside.iter().copied().collect();
        for &id in &inside {
            let node = self.data.node(id);
            all.extend(node.inputs.iter().map(|i| i.node));
            all.extend(node.controls.iter().copied());
            all.extend(&self.users[id.index()]);
        }
        let all: Vec<NodeId> = all.into_iter().collect();
        let mut folded = self.fold(&all, |name| child(name, scope, &self.scopes));
        for outside in folded
            .boxes
            .iter_mut()
            .filter(|b| b.is_outside && b.is_scope)
        {
            outside.nodes = self.nodes_of(&outside.name);
        }
        folded
    }

    /// The nodes of a scope, and the one that has its name.
    fn nodes_of(&self, scope: &str) -> Vec<NodeId> {
        if scope.is_empty() {
            return self.data.ids().collect();
        }
        let own = self.by_name.get(scope).copied();
        // `0` follows `/`.
        let (from, to) = (format!("{scope}/"), format!("{scope}0"));
        let range = (Bound::Included(&*from), Bound::Excluded(&*to));
        let inner = self.by_name.range::<str, _>(range);
        own.into_iter().chain(inner.map(|(_, &id)| id)).collect()
    }

    /// Folds these nodes, which are in the order of building.
    fn fold(&self, nodes: &[NodeId], of: impl Fn(&'d str) -> BoxKey<'d>) -> FoldedGraph {
        let mut boxes: Vec<FoldedBox> = Vec::new();
        let mut index: HashMap<BoxKey<'d>, usize> = HashMap::new();
        let mut of_node: HashMap<NodeId, usize> = HashMap::new();
        for &id in nodes {
            let node = self.data.node(id);
            let (name, is_scope, is_outside) = of(&node.name);
            if !is_scope && is_constant(node) {
                continue;
            }
            let at = *index
                .entry((name, is_scope, is_outside))
                .or_insert_with(|| {
                    boxes.push(FoldedBox {
                        name: name.to_owned(),
                        nodes: Vec::new(),
                        is_scope,
                        is_outside,
                    });
                    boxes.len() - 1
                });
            boxes[at].nodes.push(id);
            of_node.insert(id, at);
        }
        let mut edges: BTreeMap<(usize, usize), FoldedEdge> = BTreeMap::new();
        let mut edge = |from: NodeId, to: usize, value: Option<OutputId>| {
            let Some(&from) = of_node.get(&from) else {
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
        for id in nodes {
            let Some(&to) = of_node.get(id) else {
                continue;
            };
            let node = self.data.node(*id);
            node.inputs.iter().for_each(|&i| edge(i.node, to, Some(i)));
            node.controls.iter().for_each(|&c| edge(c, to, None));
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
                    format!("{}/\n{}", b.name, counted(b.nodes.len(), "node")),
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
