//! Decodes the region of a node.

use thalweg_graph::flow::RegionBody;
use thalweg_graph::function::Port;
use thalweg_graph::{Node, OutputId};
use thalweg_tensor::Tensor;

use super::decode::{PartDecoder, node_error};
use crate::transport::messages as wire;
use crate::transport::wire_error::WireError;

impl PartDecoder<'_> {
    /// Decodes the region of a node and adds it as the function that the node names. It is decoded as the outer graph
    /// is. The facts of its results follow from its nodes.
    pub(super) fn region(
        &mut self,
        message: &wire::Region,
        node: &mut Node,
        values: &mut dyn Iterator<Item = Tensor>,
    ) -> Result<(), WireError> {
        let refused = |reason: &str| node_error(&node.name, node.op.name, reason.to_owned());
        if self.is_region {
            return Err(refused("a region has no regions of its own"));
        }
        let name = node.attrs.func("f").map(|f| f.name.clone());
        let name = name.ok_or_else(|| refused("its region has no name"))?;
        if self.graph.function(&name).is_some() {
            return Err(refused("its region has the name of something else"));
        }
        let mut body = RegionBody::default();
        for &input in &node.inputs {
            let fact = self.graph.fact(input);
            let fact = fact.ok_or_else(|| refused("an input does not exist"))?;
            // A known value of the argument need not hold in a branch.
            let fact = fact.clone().without_value();
            let source = self.graph.node(input.node);
            let name = source.name.clone();
            body.push_argument(name, source, &fact);
        }
        let inside = PartDecoder {
            count: body.graph.len() + message.node.len(),
            graph: std::mem::take(&mut body.graph),
            ops: self.ops,
            allowed: self.allowed,
            budget: &mut *self.budget,
            is_region: true,
            open: Vec::new(),
        };
        body.graph = inside.of(&message.node, values)?;
        if message.results.len() != node.outputs.len() {
            return Err(refused("its region gives another number of values"));
        }
        let mut results = Vec::with_capacity(message.results.len());
        for (result, fact) in message.results.iter().zip(&mut node.outputs) {
            let output = OutputId {
                node: body.graph.id(result.node as usize),
                index: result.index,
            };
            let found = body.graph.fact(output).filter(|f| f.dtype == fact.dtype);
            let found = found.ok_or_else(|| {
                let reason = "its region does not give what it says";
                node_error(&node.name, node.op.name, reason.to_owned())
            })?;
            *fact = found.clone().without_value();
            let port = Port {
                name: body.graph.output_name(output),
                dtype: fact.dtype,
            };
            results.push((port, output));
        }
        self.graph
            .define(body.function(&name, results, node.origin.clone()));
        Ok(())
    }
}
