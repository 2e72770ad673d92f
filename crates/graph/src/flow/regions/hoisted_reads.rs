//! Reads of variables that a region does not write, moved in front of the region. A region runs on one device: it takes
//! the values of variables on other devices, in place of their handles.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use thalweg_tensor::DType;

use crate::data::GraphData;
use crate::error::GraphError;
use crate::flow::ops::makes_holder;
use crate::flow::value_readers::{find_op, on_value, passes, value_op};
use crate::node::{NodeId, OutputId};
use crate::op::{Calls, FindOp};
use crate::simplified::Simplified;

/// A region: the number of its group, and its nodes by number.
pub(super) type RegionNodes = (usize, Vec<NodeId>);

/// Moves reads of variables out of those regions that use resources of several devices, as far as that helps. Each added
/// node is last in the graph.
///
/// # Errors
/// The registry lacks an op.
pub(super) fn hoist_reads(
    simplified: &mut Simplified,
    group: &[usize],
    regions: &[RegionNodes],
    find: FindOp<'_>,
) -> Result<(), GraphError> {
    for (region, members) in regions {
        // Reads that were added have no group yet: a region does not wait for one to begin another.
        let outside = |n: NodeId| group.get(n.index()).is_some_and(|g| g != region);
        let used = handles(&simplified.graph, members, outside);
        let device = |o: &OutputId| simplified.devices[o.node.index()];
        if used.iter().all(|o| device(o) == device(&used[0])) {
            continue;
        }
        let uses: Vec<Option<VariableUses>> = used
            .iter()
            .map(|&handle| VariableUses::of(simplified, handle, members))
            .collect();
        let (holders, others): (Vec<_>, Vec<_>) = used
            .iter()
            .zip(&uses)
            .partition(|(o, _)| makes_holder(simplified.graph.node(o.node).op.name));
        let pinned = others.iter().find(|(_, uses)| uses.is_none());
        if let Some(on) = pinned.map(|(handle, _)| device(handle)) {
            for (&holder, _) in holders {
                move_holder(simplified, holder, on);
            }
        }
        let device = |o: &OutputId| simplified.devices[o.node.index()];
        let fixed = used.iter().zip(&uses).find(|(_, uses)| uses.is_none());
        let on = fixed.map_or_else(
            || most_common(simplified, members),
            |(handle, _)| device(handle),
        );
        let none_here = !used.iter().any(|o| device(o) == on);
        let moved: Vec<VariableUses> = uses
            .into_iter()
            .flatten()
            .filter(|uses| device(&uses.handle) != on)
            .collect();
        if none_here && let Some(first) = members.first() {
            // Without a handle, a region runs on the device of its first node.
            simplified.devices[first.index()] = on;
        }
        for uses in moved {
            uses.hoist(simplified, members, outside, find)?;
        }
    }
    Ok(())
}

/// Moves an array or a stack to a device, with all nodes that use its handle or that of its gradient: it lives for a step,
/// so any device will do.
fn move_holder(simplified: &mut Simplified, handle: OutputId, to: u32) {
    let graph = &simplified.graph;
    let mut handles = vec![handle];
    while let Some(handle) = handles.pop() {
        simplified.devices[handle.node.index()] = to;
        for user in graph.consumers(handle.node) {
            let node = graph.node(user);
            if node.inputs.contains(&handle) && simplified.devices[user.index()] != to {
                simplified.devices[user.index()] = to;
                let is_loop = node.op.calls == Calls::Loop;
                let makes = makes_holder(node.op.name);
                let given = (0..).zip(&node.inputs);
                let given = given.filter(|(i, o)| **o == handle && (is_loop || makes && *i == 0));
                handles.extend(given.map(|(index, _)| OutputId { node: user, index }));
            }
        }
    }
}

/// The resources from outside that the members use, in the order of their use.
fn handles(
    graph: &GraphData,
    members: &[NodeId],
    outside: impl Fn(NodeId) -> bool,
) -> Vec<OutputId> {
    let mut used = Vec::new();
    for &input in members.iter().flat_map(|&m| &graph.node(m).inputs) {
        let is_handle = graph
            .fact(input)
            .is_some_and(|f| f.dtype == DType::Resource);
        if is_handle && outside(input.node) && !used.contains(&input) {
            used.push(input);
        }
    }
    used
}

/// The device of most nodes of a region that compute.
fn most_common(simplified: &Simplified, members: &[NodeId]) -> u32 {
    let mut counts: FxHashMap<u32, usize> = FxHashMap::default();
    for &member in members {
        if !passes(simplified.graph.node(member)) {
            let device = simplified.devices[member.index()];
            *counts.entry(device).or_default() += 1;
        }
    }
    let most = counts
        .into_iter()
        .max_by_key(|&(device, count)| (count, std::cmp::Reverse(device)));
    most.map_or(0, |(device, _)| device)
}

/// Uses of a variable's handle in a region that only reads the variable.
struct VariableUses {
    handle: OutputId,
    /// Nodes that pass the handle on, in order.
    passing: Vec<NodeId>,
    /// Nodes that read the variable.
    reading: Vec<NodeId>,
}

impl VariableUses {
    /// The uses of a handle; `None` if it is not that of a variable, or something else than a read uses it.
    fn of(simplified: &Simplified, handle: OutputId, members: &[NodeId]) -> Option<VariableUses> {
        let graph = &simplified.graph;
        graph.fact(handle)?.variable.as_ref()?;
        let mut uses = VariableUses {
            handle,
            passing: Vec::new(),
            reading: Vec::new(),
        };
        // Sources of the handle come before their users, but on the way back of a loop, which a handle that is only read
        // does not take.
        for &member in members {
            let node = graph.node(member);
            let carries = |i: &OutputId| *i == handle || uses.passing.contains(&i.node);
            let carried: SmallVec<[usize; 1]> = (0..node.inputs.len())
                .filter(|&i| carries(&node.inputs[i]))
                .collect();
            match carried[..] {
                [] => {}
                [0] if passes(node) => uses.passing.push(member),
                [0] if value_op(node).is_some() => uses.reading.push(member),
                _ => return None,
            }
        }
        // A fetched handle stays one.
        let fetched = |o: &OutputId| uses.passing.contains(&o.node);
        (!simplified.fetches.iter().any(fetched)).then_some(uses)
    }

    /// Reads the variable in front of the region, after all nodes that the region waits for, and passes its value on in
    /// place of the handle.
    fn hoist(
        self,
        simplified: &mut Simplified,
        members: &[NodeId],
        outside: impl Fn(NodeId) -> bool,
        find: FindOp<'_>,
    ) -> Result<(), GraphError> {
        let graph = &simplified.graph;
        let source = graph.node(self.handle.node);
        let before = members.iter().map(|&m| graph.node(m)).flat_map(|node| {
            let inputs = node.inputs.iter().map(|i| i.node);
            inputs.chain(node.controls.iter().copied())
        });
        let before: BTreeSet<NodeId> = before
            .filter(|&n| outside(n) && n != self.handle.node)
            .collect();
        let first = members.first().map_or("", |&m| &graph.node(m).name);
        let (name, controls) = (
            format!("{first}/{}/value", source.name),
            before.into_iter().collect(),
        );
        let read = find_op(source, "ReadVariableOp", find)?;
        let read = simplified.push_read(read, name, self.handle, controls)?;
        let graph = &mut simplified.graph;
        for &member in self.passing.iter().chain(&self.reading) {
            if graph.node(member).inputs[0] == self.handle {
                graph.close(member, 0, read);
            }
            let node = on_value(graph, member, find)?;
            graph.replace(member, node);
        }
        Ok(())
    }
}
