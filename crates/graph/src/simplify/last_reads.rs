//! Reads of fetched references, when the step ends.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::check::check_node;
use crate::error::{GraphError, Reason};
use crate::node::{Attrs, Node, NodeId, OutputId};
use crate::op::OpDef;
use crate::simplified::Simplified;

/// Adds the reads of fetched references, after all updates of their variables: TensorFlow fetches the buffer of a variable
/// when the step ends. `references` has, for the fetches that are handles by now, the nodes that the references come out of.
///
/// # Errors
/// The registry has no ReadVariableOp.
pub(super) fn read_last(
    simplified: &mut Simplified,
    references: &[Option<SmallVec<[NodeId; 2]>>],
    read: Option<&'static OpDef>,
) -> Result<(), GraphError> {
    let mut reads: FxHashMap<OutputId, OutputId> = FxHashMap::default();
    for (fetch, after) in simplified.fetches.iter_mut().zip(references) {
        let handle = *fetch;
        let Some(after) = after else { continue };
        let graph = &mut simplified.graph;
        if let Some(&read) = reads.get(&handle) {
            after
                .iter()
                .for_each(|&first| graph.wait_for(read.node, first));
            *fetch = read;
            continue;
        }
        let source = graph.node(handle.node).clone();
        let op =
            read.ok_or_else(|| GraphError::of(&source, Reason::UnknownOp { nearest: None }))?;
        let fact = source.outputs[handle.index as usize].clone();
        let mut attrs = Attrs::default();
        if let Some((dtype, _)) = &fact.variable {
            attrs.set("dtype", (*dtype).into());
        }
        let (attrs, outputs) =
            check_node(op, &[fact], attrs).map_err(|r| GraphError::of(&source, r))?;
        let updates = graph
            .consumers(handle.node)
            .filter(|user| graph.updates(*user, handle));
        let controls: BTreeSet<NodeId> = updates.chain(after.iter().copied()).collect();
        let node = Node {
            name: format!("{}/value", source.name),
            op,
            inputs: SmallVec::from_elem(handle, 1),
            controls: controls.into_iter().collect(),
            attrs,
            device: source.device.clone(),
            colocation: SmallVec::new(),
            outputs,
            origin: source.origin.clone(),
        };
        let read = OutputId {
            node: graph.push(node),
            index: 0,
        };
        simplified
            .devices
            .push(simplified.devices[handle.node.index()]);
        reads.insert(handle, read);
        *fetch = read;
    }
    Ok(())
}
