//! The graph of a region under construction.

use smallvec::SmallVec;
use thalweg_tensor::{DType, Shape};

use crate::attr::Attr;
use crate::data::GraphData;
use crate::function::{Function, Port, argument_node};
use crate::node::{Attrs, Fact, Node, NodeId, Origin, OutputId};
use crate::op::OpDef;

/// The graph of a region: first its arguments, then its nodes.
#[derive(Default)]
pub struct RegionBody {
    /// The nodes so far.
    pub graph: GraphData,
    /// The arguments.
    pub arguments: Vec<Port>,
}

impl RegionBody {
    /// Adds an argument of this name with this fact; `source` is the node whose value it is. Arguments must come
    /// before all other nodes.
    pub fn push_argument(&mut self, name: String, source: &Node, fact: &Fact) -> NodeId {
        let index = self.arguments.len();
        self.arguments.push(Port {
            name: name.clone(),
            dtype: fact.dtype,
        });
        let node = argument_node(name, index, fact.clone(), source.origin.clone());
        self.graph.push(node)
    }

    /// Adds a node without inputs, which stands for a node `source` of the graph.
    pub(in crate::flow) fn push_source(
        &mut self,
        op: &'static OpDef,
        name: String,
        source: &Node,
        attrs: Attrs,
        fact: Fact,
    ) -> OutputId {
        let node = self.graph.push(Node {
            name,
            op,
            inputs: SmallVec::new(),
            controls: SmallVec::new(),
            attrs,
            device: source.device.clone(),
            colocation: SmallVec::new(),
            outputs: SmallVec::from_elem(fact, 1),
            origin: source.origin.clone(),
        });
        OutputId { node, index: 0 }
    }

    /// Adds a placeholder, of op FakeParam, for a value that is never read.
    pub(in crate::flow) fn push_no_value(
        &mut self,
        op: &'static OpDef,
        name: String,
        source: &Node,
        dtype: DType,
    ) -> OutputId {
        let mut attrs = Attrs::default();
        attrs.set("dtype", Attr::Type(dtype));
        attrs.set("shape", Attr::Shape(Shape::unknown()));
        self.push_source(op, name, source, attrs, Fact::new(dtype, Shape::unknown()))
    }

    /// Turns the region into a function of this name, with these results, each an output of a node.
    pub fn function(
        self,
        name: &str,
        results: impl IntoIterator<Item = (Port, OutputId)>,
        origin: Origin,
    ) -> Function {
        let (results, outputs) = results.into_iter().unzip();
        Function {
            name: name.to_owned(),
            results,
            outputs,
            inputs: self.graph.ids().take(self.arguments.len()).collect(),
            arguments: self.arguments,
            body: self.graph,
            controls: Vec::new(),
            attrs: Vec::new(),
            origin,
        }
    }
}

/// These nodes, each once, by number.
pub(in crate::flow) fn distinct(nodes: impl Iterator<Item = NodeId>) -> SmallVec<[NodeId; 2]> {
    let mut nodes: SmallVec<[NodeId; 2]> = nodes.collect();
    nodes.sort();
    nodes.dedup();
    nodes
}
