//! The graph of a region under construction.

use smallvec::SmallVec;

use crate::attr::Attr;
use crate::data::GraphData;
use crate::function::{ARGUMENT, Function, Port};
use crate::node::{Attrs, Fact, Node, NodeId, Origin, OutputId};

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
        let mut attrs = Attrs::default();
        attrs.set("T", Attr::Type(fact.dtype));
        attrs.set("index", Attr::Int(self.arguments.len() as i64));
        self.arguments.push(Port {
            name: name.clone(),
            dtype: fact.dtype,
        });
        self.graph.push(Node {
            name,
            op: &ARGUMENT,
            inputs: SmallVec::new(),
            controls: SmallVec::new(),
            attrs,
            device: Default::default(),
            colocation: SmallVec::new(),
            outputs: SmallVec::from_elem(fact.clone(), 1),
            origin: source.origin.clone(),
        })
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
