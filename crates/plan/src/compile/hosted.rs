//! Moves nodes that cannot run on their GPU to the host's CPU, before the graph is cut.

use thalweg_device::{Body, Device, DeviceType, gpus_compute};
use thalweg_graph::op::Effect;
use thalweg_graph::simplify::{FEED, Simplified, known};
use thalweg_graph::{GraphData, Node, NodeId, OutputId};
use thalweg_tensor::DType;

use super::functions::{Nesting, call_reason};
use crate::collectives;
use crate::error::SessionError;
use crate::error::failed;
use crate::kernels::find;
use crate::plan::HostedNode;
use crate::request::PlanContext;

/// Moves nodes from GPUs to the first CPU; returns them, with the reasons.
///
/// # Errors
/// A node that cannot run on its GPU, and cannot be moved because its variable is there.
pub(super) fn to_host(
    simplified: &mut Simplified,
    context: PlanContext<'_>,
) -> Result<Vec<HostedNode>, SessionError> {
    let mut moved = Vec::new();
    let on_gpu = |d: u32| context.devices[d as usize].gpu().is_some();
    if !simplified.devices.iter().any(|&d| on_gpu(d)) {
        return Ok(moved);
    }
    let cpu = |d: &Device| matches!(d, Device::Cpu(_));
    let host = context.devices.iter().position(cpu).unwrap_or(0) as u32;
    let graph = &simplified.graph;
    for (id, node) in graph.nodes() {
        let device = simplified.devices[id.index()];
        if !on_gpu(device) || known(node) || std::ptr::eq(node.op, &FEED) {
            continue;
        }
        let Some(why) = reason(simplified, id, context, &Nesting::outside()) else {
            continue;
        };
        let stays =
            |i: &&OutputId| is_handle(graph, **i) && on_gpu(simplified.devices[i.node.index()]);
        if let Some(variable) = node.inputs.iter().find(stays) {
            let variable = &graph.node(variable.node).name;
            return Err(failed(
                node,
                thalweg_device::KernelError::Invalid(format!(
                    "{why}, and its variable '{variable}' is on a GPU: place that on a CPU"
                )),
            ));
        }
        moved.push(HostedNode {
            node: node.name.clone(),
            op: node.op.name,
            from: context.devices[device as usize].name().to_string(),
            why,
        });
        simplified.devices[id.index()] = host;
    }
    settle(simplified, host);
    Ok(moved)
}

/// Places feeds and constants with their users: every part that uses one has it; on its own device only where it is
/// used there, or where nothing uses it on the host.
fn settle(simplified: &mut Simplified, host: u32) {
    let graph = &simplified.graph;
    for (id, node) in graph.nodes() {
        let everywhere = known(node) || std::ptr::eq(node.op, &FEED);
        if !everywhere || !node.controls.is_empty() {
            continue;
        }
        let own = simplified.devices[id.index()];
        let mut users = graph.consumers(id).map(|c| simplified.devices[c.index()]);
        if !users.any(|d| d == own) {
            let mut users = graph.consumers(id).map(|c| simplified.devices[c.index()]);
            simplified.devices[id.index()] = users.next().unwrap_or(host);
        }
    }
}

fn is_handle(graph: &GraphData, output: OutputId) -> bool {
    let fact = graph.fact(output);
    fact.is_some_and(|f| f.dtype == DType::Resource)
}

/// Returns the reason that a node does not run on its GPU.
fn reason(
    simplified: &Simplified,
    id: NodeId,
    context: PlanContext<'_>,
    nesting: &Nesting,
) -> Option<String> {
    let of_ranks = || {
        let device = &context.devices[simplified.devices[id.index()] as usize];
        collectives::on_host(simplified.graph.node(id), device, context)
    };
    let of_functions = || {
        let of_node = |function: &Simplified, id: NodeId, nesting: &Nesting| {
            reason(function, id, context, nesting)
        };
        call_reason(simplified, id, context, nesting, &of_node)
    };
    shape_reason(simplified, id, context)
        .map(str::to_owned)
        .or_else(of_ranks)
        .or_else(of_functions)
}

/// Returns the reason as far as it follows from kernels and shapes.
fn shape_reason(
    simplified: &Simplified,
    id: NodeId,
    context: PlanContext<'_>,
) -> Option<&'static str> {
    let graph = &simplified.graph;
    let node: &Node = graph.node(id);
    match find(context.kernels, DeviceType::Gpu, node) {
        None => return Some("there is no kernel for it on a GPU"),
        Some((_, kernel)) => match kernel.body {
            // Of a variable, the host answers where it stands.
            Body::Host if node.inputs.iter().any(|&i| is_handle(graph, i)) => return None,
            Body::Host if node.op.effect == Effect::Collective => {
                return Some("GPUs have nothing for it between them");
            }
            Body::Host => return Some("it is about shapes or indices, which the host has"),
            Body::Handle | Body::Nothing => return None,
            _ => {}
        },
    }
    let inputs = || node.inputs.iter().filter_map(|&i| graph.fact(i));
    let on_hosts = |f: &thalweg_graph::Fact| !gpus_compute(f.dtype);
    if node.outputs.iter().any(on_hosts) || inputs().any(on_hosts) {
        return Some("a GPU takes no strings and no complex numbers");
    }
    // A constant that waits for something is sent, and then no constant where it is received.
    let is_sent = |o: &OutputId| {
        let apart = simplified.devices[o.node.index()] != simplified.devices[id.index()];
        apart && !graph.node(o.node).controls.is_empty()
    };
    let unknown = |o: &OutputId| graph.fact(*o).is_none_or(|f| f.value.is_none());
    let mut shaping = node
        .inputs
        .iter()
        .enumerate()
        .filter(|(i, _)| node.is_host_input(*i));
    if shaping.any(|(_, o)| unknown(o) || is_sent(o)) {
        return Some("an input that shapes it is known only when it runs");
    }
    let late = |f: &thalweg_graph::Fact| f.dtype != DType::Resource && !f.shape.is_known();
    let late_output = node.outputs.iter().any(late);
    (late_output || inputs().any(late)).then_some("its shapes are known only when it runs")
}
