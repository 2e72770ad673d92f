//! The graph as plain data: nodes and edges, with no handle, lock or scope. Passes read one graph
//! and make another.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! let g = ops::graph();
//! let x = ops::placeholder(&g, "x", [4]);
//! let y = (x + x).named("y");
//!
//! let data = g.snapshot();
//! let names: Vec<&str> = data.nodes().map(|(_, node)| node.name.as_str()).collect();
//! assert_eq!(names, ["x", "y"]);
//! // The node `y` uses `x` twice.
//! assert_eq!(data.consumers(x.id().node).count(), 2);
//! assert_eq!(data.fact(y.id()).unwrap().shape, x.shape());
//! ```

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::unionfind::UnionFind;
use petgraph::visit::EdgeRef;

use crate::function::Function;
use crate::node::{Fact, Node, NodeId, OutputId};

/// The kind of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Value,
    Control,
    /// A value of one iteration of a loop from which the next one starts.
    Back,
}

/// A variable that a graph declares.
#[derive(Clone, Debug)]
pub struct VariableInfo {
    /// Its name.
    pub name: String,
    /// The output that is its handle.
    pub handle: OutputId,
    /// The read of its value that all its uses share.
    pub value: OutputId,
    /// The node that assigns its initial value.
    pub initializer: NodeId,
    /// `true` if optimizers update it by default.
    pub trainable: bool,
    /// For a part of a partitioned variable: its slice of the whole.
    pub slice: Option<VariableSlice>,
}

/// The slice of a partitioned variable that a variable holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSlice {
    /// The name of the whole, under which checkpoints store it.
    pub of: String,
    /// The dimensions of the whole.
    pub dims: Vec<usize>,
    /// The start of the slice in each dimension.
    pub begin: Vec<usize>,
}

/// A graph's nodes, edges, variables and functions.
#[derive(Clone, Debug, Default)]
pub struct GraphData {
    graph: DiGraph<Arc<Node>, Edge>,
    /// Nodes by name, for a graph that is searched by name; graphs that passes make have no such
    /// index.
    names: Option<HashMap<String, NodeId>>,
    pub(crate) variables: Vec<VariableInfo>,
    pub(crate) functions: Arc<BTreeMap<String, Arc<Function>>>,
}

fn index(id: NodeId) -> NodeIndex {
    NodeIndex::new(id.index())
}

fn id(index: NodeIndex) -> NodeId {
    NodeId::new(u32::try_from(index.index()).unwrap_or(u32::MAX))
}

impl GraphData {
    /// A graph without nodes.
    pub fn new() -> GraphData {
        GraphData::default()
    }

    /// A graph without nodes that is indexed by name.
    pub fn indexed() -> GraphData {
        GraphData {
            names: Some(HashMap::new()),
            ..GraphData::default()
        }
    }

    /// A graph without nodes, with the library of this one.
    pub fn empty(&self) -> GraphData {
        GraphData {
            functions: self.functions.clone(),
            ..GraphData::default()
        }
    }

    /// The same graph with the library of another one.
    pub fn with_library_of(&self, other: &GraphData) -> GraphData {
        GraphData {
            functions: other.functions.clone(),
            ..self.clone()
        }
    }

    /// Adds a function to the library, in place of one of the same name.
    pub fn define(&mut self, function: Function) {
        let library = Arc::make_mut(&mut self.functions);
        library.insert(function.name.clone(), Arc::new(function));
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.graph.node_count()
    }

    /// `true` if there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a node whose inputs exist already, except invalid ones, which are
    /// [closed](GraphData::close) later; returns its number.
    pub fn push(&mut self, node: impl Into<Arc<Node>>) -> NodeId {
        let node = node.into();
        let at = self.graph.add_node(node.clone());
        for input in node.inputs.iter().filter(|i| !i.node.is_invalid()) {
            self.graph.add_edge(index(input.node), at, Edge::Value);
        }
        for &control in &node.controls {
            self.graph.add_edge(index(control), at, Edge::Control);
        }
        if let Some(names) = &mut self.names {
            names.insert(node.name.clone(), id(at));
        }
        id(at)
    }

    /// Closes a loop: sets input `input` of `node`, which was left open, to `from`, which comes
    /// after it.
    pub fn close(&mut self, node: NodeId, input: usize, from: OutputId) {
        let at = Arc::make_mut(&mut self.graph[index(node)]);
        if let Some(open) = at.inputs.get_mut(input) {
            *open = from;
            self.graph
                .add_edge(index(from.node), index(node), Edge::Back);
        }
    }

    /// Renames a node; the new name must be free.
    pub(crate) fn rename(&mut self, node: NodeId, name: String) {
        let Some(weight) = self.node_mut(node) else {
            return;
        };
        let old = std::mem::replace(&mut weight.name, name.clone());
        if let Some(names) = &mut self.names {
            names.remove(&old);
            names.insert(name, node);
        }
    }

    /// The node of this number, mutable: for changes of its inferred facts.
    pub(crate) fn node_mut(&mut self, node: NodeId) -> Option<&mut Node> {
        self.graph.node_weight_mut(index(node)).map(Arc::make_mut)
    }

    /// Replaces a node by one whose first inputs are the same.
    pub(crate) fn replace(&mut self, at: NodeId, node: Node) {
        let had = self.node(at).inputs.len();
        for input in node.inputs.iter().skip(had) {
            self.graph
                .add_edge(index(input.node), index(at), Edge::Value);
        }
        self.graph[index(at)] = Arc::new(node);
    }

    /// Makes a node wait for another one that comes before it in every order.
    pub fn wait_for(&mut self, node: NodeId, first: NodeId) {
        let Some(at) = self.node_mut(node) else {
            return;
        };
        if !at.controls.contains(&first) {
            at.controls.push(first);
            at.controls.sort();
            self.graph
                .add_edge(index(first), index(node), Edge::Control);
        }
    }

    /// The function of this name in the library.
    pub fn function(&self, name: &str) -> Option<&Arc<Function>> {
        self.functions.get(name)
    }

    /// The library: functions that nodes call, by name.
    pub fn functions(&self) -> &BTreeMap<String, Arc<Function>> {
        &self.functions
    }

    /// The node of this number.
    ///
    /// # Panics
    /// If the number belongs to another graph; numbers that a graph gave out are never invalid in
    /// it.
    pub fn node(&self, node: NodeId) -> &Arc<Node> {
        &self.graph[index(node)]
    }

    /// The node of this number, if it belongs to this graph.
    pub fn get(&self, node: NodeId) -> Option<&Arc<Node>> {
        self.graph.node_weight(index(node))
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        match &self.names {
            Some(names) => names.get(name).copied(),
            None => self.ids().find(|&id| self.node(id).name == name),
        }
    }

    /// The inferred fact of an output.
    pub fn fact(&self, output: OutputId) -> Option<&Fact> {
        self.get(output.node)?.outputs.get(output.index as usize)
    }

    /// An output's name: `node:index`.
    pub fn output_name(&self, output: OutputId) -> String {
        match self.get(output.node) {
            Some(node) => format!("{}:{}", node.name, output.index),
            None => format!("<invalid>:{}", output.index),
        }
    }

    /// The number of the node of this position in the order of building.
    pub fn id(&self, index: usize) -> NodeId {
        NodeId::new(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Consumes the graph and returns its nodes, in the order of building.
    pub fn into_nodes(self) -> impl Iterator<Item = Arc<Node>> {
        let (nodes, _) = self.graph.into_nodes_edges();
        nodes.into_iter().map(|n| n.weight)
    }

    /// Every node's number, in the order of building.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.len()).map(|i| NodeId::new(i as u32))
    }

    /// Every node, in the order of building.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Arc<Node>)> {
        self.ids().map(|id| (id, self.node(id)))
    }

    /// The variables that the graph declares.
    pub fn variables(&self) -> &[VariableInfo] {
        &self.variables
    }

    /// The nodes that use an output of `node` or wait for it; one that uses it twice comes twice.
    pub fn consumers(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.graph
            .edges_directed(index(node), Direction::Outgoing)
            .map(|e| id(e.target()))
    }

    /// By number: `true` for nodes that must run for `roots` to have run; the walk does not go past
    /// an output for which `cut` is true (one that is fed).
    pub fn needed(
        &self,
        roots: impl IntoIterator<Item = NodeId>,
        cut: impl Fn(OutputId) -> bool,
    ) -> Vec<bool> {
        let mut seen = vec![false; self.len()];
        let mut stack: Vec<NodeId> = roots.into_iter().collect();
        while let Some(at) = stack.pop() {
            if at.index() >= seen.len() || std::mem::replace(&mut seen[at.index()], true) {
                continue;
            }
            let node = self.node(at);
            // An open input is no number of this graph, and is passed over.
            stack.extend(node.inputs.iter().filter(|&&i| !cut(i)).map(|i| i.node));
            stack.extend(node.controls.iter());
        }
        seen
    }

    /// By node: the number of its group. Two nodes are of one group where pairs lead from one to the other.
    pub fn groups(&self, pairs: impl IntoIterator<Item = [NodeId; 2]>) -> Vec<usize> {
        let mut together = UnionFind::<usize>::new(self.len());
        for [one, other] in pairs {
            together.union(one.index(), other.index());
        }
        together.into_labeling()
    }

    /// The nodes for which `keep` is true in topological order, ties in the order of building. The
    /// back edges of loops are ignored; nodes on another cycle are left out.
    ///
    /// Takes O(n log n) of the number of nodes and edges.
    pub fn topological_order(&self, keep: &[bool]) -> Vec<NodeId> {
        let kept = |n: NodeIndex| keep.get(n.index()).copied().unwrap_or(false);
        let mut waiting: Vec<u32> = vec![0; self.len()];
        for e in self.graph.edge_references() {
            if *e.weight() != Edge::Back && kept(e.source()) && kept(e.target()) {
                waiting[e.target().index()] += 1;
            }
        }
        let mut ready: BinaryHeap<std::cmp::Reverse<usize>> = self
            .graph
            .node_indices()
            .filter(|&n| kept(n) && waiting[n.index()] == 0)
            .map(|n| std::cmp::Reverse(n.index()))
            .collect();
        let mut order = Vec::new();
        while let Some(std::cmp::Reverse(n)) = ready.pop() {
            let n = NodeIndex::new(n);
            order.push(id(n));
            for edge in self.graph.edges_directed(n, Direction::Outgoing) {
                let next = edge.target();
                if *edge.weight() != Edge::Back && kept(next) {
                    let w = &mut waiting[next.index()];
                    *w -= 1;
                    if *w == 0 {
                        ready.push(std::cmp::Reverse(next.index()));
                    }
                }
            }
        }
        order
    }
}
