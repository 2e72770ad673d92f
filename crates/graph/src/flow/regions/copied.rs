//! Function bodies copied from nodes of a graph.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::extractor::output_node_name;
use crate::attr::Attr;
use crate::data::GraphData;
use crate::flow::region_body::{RegionBody, distinct};
use crate::function::{Function, Port};
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::op::{FindOp, OpDef};
use crate::simplified::known;
use thalweg_tensor::Tensor;

/// The ops of which calls consist.
#[derive(Clone, Copy)]
pub(super) struct CallOps {
    pub(super) repeat: &'static OpDef,
    pub(super) branch: &'static OpDef,
    pub(super) constant: &'static OpDef,
    /// Stands for a value that a branch does not compute.
    pub(super) no_value: &'static OpDef,
}

impl CallOps {
    /// `None` where the registry lacks one.
    pub(super) fn new(find: FindOp<'_>) -> Option<CallOps> {
        Some(CallOps {
            repeat: find("While")?,
            branch: find("If")?,
            constant: find("Const")?,
            no_value: find("FakeParam")?,
        })
    }
}

/// A function body under construction, with its outputs for outputs of the graph.
pub(super) struct CopiedBody<'a> {
    graph: &'a GraphData,
    ops: CallOps,
    body: RegionBody,
    values: FxHashMap<OutputId, OutputId>,
    nodes: FxHashMap<NodeId, NodeId>,
    /// Inputs that come from a later node: the way back of a loop inside.
    open: Vec<(NodeId, usize, OutputId)>,
}

impl<'a> CopiedBody<'a> {
    /// A body with these arguments, each for an output of the graph, with this fact.
    pub(super) fn new(
        graph: &'a GraphData,
        ops: CallOps,
        arguments: &[(OutputId, Fact)],
    ) -> CopiedBody<'a> {
        let mut copied = CopiedBody {
            graph,
            ops,
            body: RegionBody::default(),
            values: FxHashMap::default(),
            nodes: FxHashMap::default(),
            open: Vec::new(),
        };
        for (output, fact) in arguments {
            let source = graph.node(output.node);
            let fact = fact.clone().without_value();
            let node = copied
                .body
                .push_argument(output_node_name(graph, *output), source, &fact);
            copied.values.insert(*output, OutputId { node, index: 0 });
        }
        copied
    }

    /// Makes an output of the graph stand for what another one stands for.
    pub(super) fn alias(&mut self, output: OutputId, of: OutputId) -> Option<()> {
        let here = self.value(of)?;
        self.values.insert(output, here);
        Some(())
    }

    /// Makes an output of the graph stand for one of the body.
    pub(super) fn set(&mut self, output: OutputId, here: OutputId) {
        self.values.insert(output, here);
    }

    /// The output of the body for an output of the graph; a known value becomes a constant.
    pub(super) fn value(&mut self, output: OutputId) -> Option<OutputId> {
        if let Some(&here) = self.values.get(&output) {
            return Some(here);
        }
        let source = self.graph.node(output.node);
        if !known(source) {
            return None;
        }
        let value = source.outputs.get(output.index as usize)?.value.clone()?;
        let here = self.constant(output_node_name(self.graph, output), source, value);
        self.values.insert(output, here);
        Some(here)
    }

    /// Adds a constant.
    pub(super) fn constant(&mut self, name: String, source: &Node, value: Tensor) -> OutputId {
        let mut fact = Fact::new(value.dtype(), value.shape());
        let mut attrs = Attrs::default();
        attrs.set("dtype", Attr::Type(value.dtype()));
        attrs.set("value", Attr::Tensor(value.clone()));
        fact.value = Some(value);
        let op = self.ops.constant;
        self.body.push_source(op, name, source, attrs, fact)
    }

    /// Adds a placeholder for a value of this fact that is never read.
    pub(super) fn no_value(&mut self, name: String, source: &Node, fact: &Fact) -> OutputId {
        let op = self.ops.no_value;
        self.body.push_no_value(op, name, source, fact.dtype)
    }

    /// Copies a node; it waits for those of its controls that have been copied. `None` if an input is not here.
    pub(super) fn copy(&mut self, id: NodeId) -> Option<()> {
        let mut node = Node::clone(self.graph.node(id));
        let mut open = SmallVec::<[(usize, OutputId); 2]>::new();
        for (i, input) in node.inputs.iter_mut().enumerate() {
            match self.value(*input) {
                Some(here) => *input = here,
                None if input.node > id => {
                    open.push((i, *input));
                    input.node = NodeId::INVALID;
                }
                None => return None,
            }
        }
        node.controls = self.nodes_here(&node.controls);
        let outputs = node.outputs.len() as u32;
        let here = self.body.graph.push(node);
        for index in 0..outputs {
            self.values
                .insert(OutputId { node: id, index }, OutputId { node: here, index });
        }
        self.nodes.insert(id, here);
        self.open
            .extend(open.into_iter().map(|(i, from)| (here, i, from)));
        Some(())
    }

    /// The copies of those nodes that have been copied, each once.
    fn nodes_here(&self, of: &[NodeId]) -> SmallVec<[NodeId; 2]> {
        distinct(of.iter().filter_map(|n| self.nodes.get(n).copied()))
    }

    /// The function of this name with these results; it runs every node that no other one uses. `None` if an input or
    /// a result is not here.
    pub(super) fn function(
        mut self,
        name: &str,
        results: &[OutputId],
        source: &Node,
    ) -> Option<Function> {
        let here: Option<Vec<OutputId>> = results.iter().map(|&o| self.value(o)).collect();
        let results: Vec<(Port, OutputId)> = results
            .iter()
            .zip(here?)
            .map(|(&of, here)| {
                let dtype = self.body.graph.fact(here)?.dtype;
                let name = self.graph.output_name(of);
                Some((Port { name, dtype }, here))
            })
            .collect::<Option<_>>()?;
        for (node, input, from) in std::mem::take(&mut self.open) {
            let from = self.value(from)?;
            self.body.graph.close(node, input, from);
        }
        let graph = &self.body.graph;
        let controls = self
            .nodes
            .values()
            .filter(|&&n| graph.consumers(n).next().is_none())
            .map(|&n| (graph.node(n).name.clone(), n));
        let mut controls: Vec<(String, NodeId)> = controls.collect();
        controls.sort_by_key(|(_, n)| *n);
        let mut function = self.body.function(name, results, source.origin.clone());
        function.controls = controls;
        Some(function)
    }
}
