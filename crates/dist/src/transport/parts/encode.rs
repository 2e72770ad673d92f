//! Encodes the nodes of a part, and collects the values of constant ones.

use std::collections::BTreeMap;

use thalweg_graph::flow::REGION;
use thalweg_graph::op::LIVE_OUTPUTS;
use thalweg_graph::simplify::known;
use thalweg_graph::{Attr, Fact, Function, GraphData, Node, NodeId, OutputId};
use thalweg_graphdef::{attr, dtype, shape};
use thalweg_tensor::Tensor;

use super::ops::is_cut_end;
use crate::transport::messages as wire;
use crate::transport::wire_error::WireError;

/// Encoder of a graph.
pub(super) struct PartEncoder<'a> {
    pub graph: &'a GraphData,
    /// Device of each node. The nodes of a region are on the device of the region.
    pub devices: &'a [u32],
}

impl PartEncoder<'_> {
    /// Encodes the nodes from number `first` on. The values of constant nodes are added to `values`, in order.
    ///
    /// # Errors
    /// A node cannot be sent.
    pub(super) fn nodes(
        &self,
        first: usize,
        values: &mut Vec<Tensor>,
    ) -> Result<Vec<wire::Node>, WireError> {
        let nodes = self.graph.nodes().skip(first);
        nodes.map(|(id, n)| self.node(id, n, values)).collect()
    }

    fn node(
        &self,
        id: NodeId,
        node: &Node,
        values: &mut Vec<Tensor>,
    ) -> Result<wire::Node, WireError> {
        let known = known(node);
        let mut attrs = BTreeMap::new();
        // The task does not know which outputs others need.
        let sent = |name: &str| !name.starts_with('_') || name == LIVE_OUTPUTS;
        for (name, value) in node.attrs.iter().filter(|(name, _)| sent(name)) {
            // The value of a constant is sent separately.
            if known && matches!(value, Attr::Tensor(_)) {
                continue;
            }
            attrs.insert(name.to_owned(), attr::to_proto(value)?);
        }
        if known {
            values.extend(node.outputs.iter().filter_map(|f| f.value.clone()));
        }
        let facts = match is_cut_end(node.op) {
            true => node.outputs.iter().map(fact).collect(),
            false => Vec::new(),
        };
        Ok(wire::Node {
            name: node.name.clone(),
            op: node.op.name.to_owned(),
            inputs: match known {
                true => Vec::new(),
                false => node.inputs.iter().copied().map(output).collect(),
            },
            controls: node.controls.iter().map(|c| number(*c)).collect(),
            attrs: attrs.into_iter().collect(),
            device: self.devices.get(id.index()).copied().unwrap_or(0),
            facts,
            known: if known { node.outputs.len() as u32 } else { 0 },
            origin: node.origin.to_string(),
            region: match std::ptr::eq(node.op, &REGION) {
                true => Some(self.region(node, values)?),
                false => None,
            },
        })
    }

    /// Encodes the region of a node.
    fn region(&self, node: &Node, values: &mut Vec<Tensor>) -> Result<wire::Region, WireError> {
        let function = region_of(self.graph, node);
        let missing = || WireError::Part(format!("node '{}' has no region", node.name));
        let function = function.ok_or_else(missing)?;
        let body = PartEncoder {
            graph: &function.body,
            devices: &[],
        };
        Ok(wire::Region {
            // The first nodes of a region are its arguments.
            node: body.nodes(function.inputs.len(), values)?,
            results: function.outputs.iter().copied().map(output).collect(),
        })
    }
}

/// Returns the region of a node.
pub(super) fn region_of<'g>(graph: &'g GraphData, node: &Node) -> Option<&'g Function> {
    let named = node.attrs.func("f")?;
    graph.function(&named.name).map(|f| &**f)
}

pub(super) fn number(node: NodeId) -> u32 {
    u32::try_from(node.index()).unwrap_or(u32::MAX)
}

pub(super) fn output(output: OutputId) -> wire::Output {
    wire::Output {
        node: number(output.node),
        index: output.index,
    }
}

fn fact(fact: &Fact) -> wire::Fact {
    wire::Fact {
        dtype: dtype::to_number(fact.dtype),
        shape: Some(shape::to_proto(&fact.shape)),
    }
}
