//! Reads of fetched references, when the step ends.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::error::{GraphError, Reason};
use crate::node::{NodeId, OutputId};
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
    for (i, after) in references.iter().enumerate() {
        let handle = simplified.fetches[i];
        let Some(after) = after else { continue };
        if let Some(&read) = reads.get(&handle) {
            after
                .iter()
                .for_each(|&first| simplified.graph.wait_for(read.node, first));
            simplified.fetches[i] = read;
            continue;
        }
        let graph = &simplified.graph;
        let source = graph.node(handle.node);
        let op = read.ok_or_else(|| GraphError::of(source, Reason::UnknownOp { nearest: None }))?;
        let updates = graph
            .consumers(handle.node)
            .filter(|user| graph.updates(*user, handle));
        let controls: BTreeSet<NodeId> = updates.chain(after.iter().copied()).collect();
        let (name, controls) = (
            format!("{}/value", source.name),
            controls.into_iter().collect(),
        );
        let read = simplified.push_read(op, name, handle, controls)?;
        reads.insert(handle, read);
        simplified.fetches[i] = read;
    }
    Ok(())
}
