//! Groups: one node that runs after many others.

use thalweg_graph::{DeviceScope, DeviceSpec, Graph, GraphData, NodeId, Operation};

/// A node that runs after all of `nodes`. If these are requested on several devices, one node on each device comes
/// first (as in `tf.group`): then one control edge for each device, not for each node, crosses from task
/// to task.
#[track_caller]
pub(super) fn group<'g>(
    graph: &'g Graph,
    name: &str,
    nodes: impl IntoIterator<Item = impl Into<Operation<'g>>>,
) -> Operation<'g> {
    let nodes = nodes.into_iter().map(Into::into).collect();
    let devices = by_device(graph, nodes);
    let one = |name: &str, device: &DeviceSpec, nodes: &[Operation<'g>]| {
        let build = || {
            let node = graph.op("NoOp").name(name);
            nodes.iter().fold(node, |node, &n| node.control(n)).build()
        };
        match device.is_empty() {
            true => build(),
            false => graph.device(DeviceScope::None, || graph.device(device.clone(), build)),
        }
    };
    match &devices[..] {
        [] => one(name, &DeviceSpec::default(), &[]),
        [(device, nodes)] => one(name, device, nodes),
        several => {
            let part = format!("{name}/part");
            let parts = several
                .iter()
                .map(|(device, nodes)| one(&part, device, nodes));
            let parts: Vec<_> = parts.collect();
            one(name, &DeviceSpec::default(), &parts)
        }
    }
}

/// Groups nodes by requested device, in order of the first node on each device.
fn by_device<'g>(
    graph: &'g Graph,
    nodes: Vec<Operation<'g>>,
) -> Vec<(DeviceSpec, Vec<Operation<'g>>)> {
    let data = graph.snapshot();
    let mut devices: Vec<(DeviceSpec, Vec<_>)> = Vec::new();
    for node in nodes {
        let device = match node.is_invalid() || !std::ptr::eq(node.graph(), graph) {
            // An invalid node is reported when it becomes an input.
            true => DeviceSpec::default(),
            false => requested_device(&data, node.id()),
        };
        match devices.iter_mut().find(|(d, _)| *d == device) {
            Some((_, there)) => there.push(node),
            None => devices.push((device, vec![node])),
        }
    }
    devices
}

/// Requested device of a node: a node that takes a handle is placed with the handle's node.
fn requested_device(data: &GraphData, node: NodeId) -> DeviceSpec {
    let node = data.node(node);
    let handle = node.inputs.iter().find(|&&input| {
        let fact = data.fact(input);
        fact.is_some_and(|f| f.reference || f.dtype == thalweg_tensor::DType::Resource)
    });
    match handle {
        Some(handle) => data.node(handle.node).device.clone(),
        None => node.device.clone(),
    }
}
