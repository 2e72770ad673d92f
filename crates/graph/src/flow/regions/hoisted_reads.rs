//! Reads of variables that a region does not write, moved in front of the region. A region runs on one device: it takes
//! the values of variables on other devices, in place of their handles.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use thalweg_tensor::DType;

use crate::attr::Attr;
use crate::check::check_node;
use crate::data::GraphData;
use crate::error::{GraphError, Reason};
use crate::flow::ops::{ENTER, SWITCH};
use crate::node::{Attrs, Fact, Node, NodeId, OutputId};
use crate::op::{FindOp, OpDef};
use crate::simplified::Simplified;

/// The op that takes a variable's value in place of an op that takes its handle.
fn on_value(reader: &Node) -> Option<&'static str> {
    match reader.op.name {
        "ReadVariableOp" => Some("Identity"),
        "ResourceGather" if reader.attrs.int("batch_dims") == 0 => Some("Gather"),
        "ResourceGatherNd" => Some("GatherNd"),
        "VariableShape" => Some("Shape"),
        _ => None,
    }
}

/// `true` for an op that passes a handle on.
fn passes(node: &Node) -> bool {
    [ENTER, SWITCH, "Identity"].contains(&node.op.name)
}

/// Moves reads of variables out of regions that use resources of several devices, as far as that helps. Returns
/// the group of each added node by number, which stands alone.
///
/// # Errors
/// The registry lacks an op.
pub(super) fn hoist_reads(
    simplified: &mut Simplified,
    group: &mut Vec<usize>,
    members: &FxHashMap<usize, Vec<NodeId>>,
    find: FindOp<'_>,
) -> Result<(), GraphError> {
    let mut regions: Vec<usize> = members.keys().copied().collect();
    regions.sort_unstable();
    for region in regions {
        let members = &members[&region];
        let used = handles(&simplified.graph, members, |n| group[n.index()] == region);
        let device = |o: &OutputId| simplified.devices[o.node.index()];
        if used.iter().all(|o| device(o) == device(&used[0])) {
            continue;
        }
        let paths = used
            .iter()
            .map(|&handle| Path::of(&simplified.graph, handle, members));
        let paths: Vec<Option<Path>> = paths.collect();
        let fixed = used.iter().zip(&paths).find(|(_, path)| path.is_none());
        let on = fixed.map_or(most_common(simplified, members), |(handle, _)| {
            device(handle)
        });
        let all_elsewhere = !used.iter().any(|o| device(o) == on);
        let moved: Vec<Path> = paths
            .into_iter()
            .flatten()
            .filter(|path| device(&path.handle) != on)
            .collect();
        if all_elsewhere && let Some(first) = members.first() {
            // Without a handle, a region runs on the device of its first node.
            simplified.devices[first.index()] = on;
        }
        for path in moved {
            path.hoist(simplified, members, find)?;
            group.push(group.len());
        }
    }
    Ok(())
}

/// The resources from outside that the members use, in the order of their use.
fn handles(
    graph: &GraphData,
    members: &[NodeId],
    inside: impl Fn(NodeId) -> bool,
) -> Vec<OutputId> {
    let mut used = Vec::new();
    for &input in members.iter().flat_map(|&m| &graph.node(m).inputs) {
        let is_handle = graph
            .fact(input)
            .is_some_and(|f| f.dtype == DType::Resource);
        if is_handle && !inside(input.node) && !used.contains(&input) {
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

/// The way of a variable's handle through a region, in which it is only read.
struct Path {
    handle: OutputId,
    /// Nodes that pass the handle on, in order.
    passing: Vec<NodeId>,
    /// Nodes that read the variable.
    reading: Vec<NodeId>,
}

impl Path {
    /// The way of a handle; `None` if it is not that of a variable, or something else than a read uses it.
    fn of(graph: &GraphData, handle: OutputId, members: &[NodeId]) -> Option<Path> {
        graph.fact(handle)?.variable.as_ref()?;
        let mut path = Path {
            handle,
            passing: Vec::new(),
            reading: Vec::new(),
        };
        // Sources of the handle come before their users, but on the way back of a loop, which no path takes.
        for &member in members {
            let node = graph.node(member);
            let carries = |i: &OutputId| *i == handle || path.passing.contains(&i.node);
            let uses: SmallVec<[usize; 1]> = (0..node.inputs.len())
                .filter(|&i| carries(&node.inputs[i]))
                .collect();
            match uses[..] {
                [] => {}
                [0] if passes(node) => path.passing.push(member),
                [0] if on_value(node).is_some() => path.reading.push(member),
                _ => return None,
            }
        }
        Some(path)
    }

    /// Reads the variable in front of the region, and passes its value on in place of the handle.
    fn hoist(
        self,
        simplified: &mut Simplified,
        members: &[NodeId],
        find: FindOp<'_>,
    ) -> Result<(), GraphError> {
        let read = self.read(&simplified.graph, members, find)?;
        let graph = &mut simplified.graph;
        let read = OutputId {
            node: graph.push(read),
            index: 0,
        };
        let device = simplified.devices[self.handle.node.index()];
        simplified.devices.push(device);
        for &member in self.passing.iter().chain(&self.reading) {
            if graph.node(member).inputs[0] == self.handle {
                graph.close(member, 0, read);
            }
            let mut node = Node::clone(graph.node(member));
            let facts: Vec<Fact> = node
                .inputs
                .iter()
                .filter_map(|i| graph.fact(*i).cloned())
                .collect();
            let name = on_value(&node).unwrap_or(node.op.name);
            node.op = op(&node, name, find)?;
            let mut attrs = Attrs::default();
            for attr in node.op.attrs {
                match node.attrs.get(attr.name) {
                    // The dtype of the handle gives way to that of the value.
                    None | Some(Attr::Type(DType::Resource)) => {}
                    Some(value) => attrs.set(attr.name, value.clone()),
                }
            }
            let (attrs, outputs) = check_node(node.op, &facts, attrs)
                .map_err(|reason| GraphError::of(&node, reason))?;
            (node.attrs, node.outputs) = (attrs, outputs);
            graph.replace(member, node);
        }
        Ok(())
    }

    /// The node that reads the variable, after all nodes that the region waits for.
    fn read(
        &self,
        graph: &GraphData,
        members: &[NodeId],
        find: FindOp<'_>,
    ) -> Result<Node, GraphError> {
        let source = graph.node(self.handle.node);
        let op = op(source, "ReadVariableOp", find)?;
        let fact = source.outputs[self.handle.index as usize].clone();
        let mut attrs = Attrs::default();
        if let Some((dtype, _)) = &fact.variable {
            attrs.set("dtype", (*dtype).into());
        }
        let (attrs, outputs) =
            check_node(op, &[fact], attrs).map_err(|reason| GraphError::of(source, reason))?;
        let before = members.iter().map(|&m| graph.node(m)).flat_map(|node| {
            let inputs = node.inputs.iter().map(|i| i.node);
            inputs.chain(node.controls.iter().copied())
        });
        let mut controls: SmallVec<[NodeId; 2]> = before
            .filter(|n| !members.contains(n) && *n != self.handle.node && !n.is_invalid())
            .collect();
        controls.sort();
        controls.dedup();
        Ok(Node {
            name: format!("{}/value", source.name),
            op,
            inputs: SmallVec::from_elem(self.handle, 1),
            controls,
            attrs,
            device: source.device.clone(),
            colocation: SmallVec::new(),
            outputs,
            origin: source.origin.clone(),
        })
    }
}

/// The op of a name, for a node.
fn op(node: &Node, name: &str, find: FindOp<'_>) -> Result<&'static OpDef, GraphError> {
    find(name).ok_or_else(|| GraphError::of(node, Reason::UnknownOp { nearest: None }))
}
