//! `Simplified`: the result of simplification.

use smallvec::SmallVec;

use crate::check::check_node;
use crate::data::GraphData;
use crate::error::GraphError;
use crate::node::{Attrs, Node, NodeId, OutputId};
use crate::op::{Effect, OpDef};

/// A graph to run, and the nodes for the feeds, fetches and targets.
#[derive(Debug)]
pub struct Simplified {
    /// The graph. Its nodes' numbers ascend along edges.
    pub graph: GraphData,
    /// By feed: its node; `None` if no fetch needs it.
    pub feeds: Vec<Option<NodeId>>,
    /// By fetch: the output that holds its value.
    pub fetches: Vec<OutputId>,
    /// By target: its node.
    pub targets: Vec<NodeId>,
    /// By node: the number of its device.
    pub devices: Vec<u32>,
}

impl Simplified {
    /// Adds a node of this name, of op ReadVariableOp, that reads the variable behind a handle after these nodes, on the
    /// handle's device.
    ///
    /// # Errors
    /// The handle is not that of a variable.
    pub(crate) fn push_read(
        &mut self,
        read: &'static OpDef,
        name: String,
        handle: OutputId,
        controls: SmallVec<[NodeId; 2]>,
    ) -> Result<OutputId, GraphError> {
        let source = self.graph.node(handle.node);
        let fact = source.outputs[handle.index as usize].clone();
        let mut attrs = Attrs::default();
        if let Some((dtype, _)) = &fact.variable {
            attrs.set("dtype", (*dtype).into());
        }
        let (attrs, outputs) =
            check_node(read, &[fact], attrs).map_err(|reason| GraphError::of(source, reason))?;
        let node = Node {
            name,
            op: read,
            inputs: SmallVec::from_elem(handle, 1),
            controls,
            attrs,
            device: source.device.clone(),
            colocation: SmallVec::new(),
            outputs,
            origin: source.origin.clone(),
        };
        let node = self.graph.push(node);
        self.devices.push(self.devices[handle.node.index()]);
        Ok(OutputId { node, index: 0 })
    }
}

/// `true` if all outputs of a node are known: it need not be computed, though others may have to
/// wait for its control inputs.
pub fn known(node: &Node) -> bool {
    node.op.effect == Effect::Pure
        && !node.outputs.is_empty()
        && node.outputs.iter().all(|f| f.value.is_some())
}
