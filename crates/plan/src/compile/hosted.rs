//! Moves nodes that cannot run on their GPU to the host's CPU, before the graph is cut.

use std::sync::Arc;

use thalweg_device::{Body, Device, DeviceType, KernelError, gpus_compute};
use thalweg_graph::flow::collapse;
use thalweg_graph::op::Effect;
use thalweg_graph::simplify::{FEED, Simplified, known};
use thalweg_graph::{Fact, GraphData, Node, NodeId, OutputId};
use thalweg_tensor::DType;

use super::functions::{Nesting, call_reason};
use super::update_shapes::with_update_shapes;
use crate::collectives;
use crate::error::SessionError;
use crate::error::failed;
use crate::kernels::find;
use crate::plan::HostedNode;
use crate::request::PlanContext;

/// Moves nodes from GPUs to the first CPU; returns them, with the reasons.
///
/// A call of functions that is moved takes the values of the variables that it only reads, and is split where it updates
/// variables of a GPU. With `in_order` the order of the nodes stays, and no call is changed.
///
/// # Errors
/// A node that cannot run on its GPU, and cannot be moved because its variable is there.
pub(super) fn to_host(
    mut simplified: Simplified,
    in_order: bool,
    context: PlanContext<'_>,
) -> Result<(Simplified, Vec<HostedNode>), SessionError> {
    let mut moved = Vec::new();
    let on_gpu = |d: &u32| context.devices[*d as usize].gpu().is_some();
    if !simplified.devices.iter().any(on_gpu) {
        return Ok((simplified, moved));
    }
    let cpu = |d: &Device| matches!(d, Device::Cpu(_));
    let host = context.devices.iter().position(cpu).unwrap_or(0) as u32;
    if !in_order {
        simplified = with_update_shapes(simplified, host, context);
    }
    let on = (host, context);
    if let Some(error) = move_nodes(&mut simplified, on, &mut moved)? {
        if in_order {
            return Err(error);
        }
        let find = |name: &str| context.kernels.get(name).map(|op| &op.def);
        let Ok(collapsed) = collapse(simplified, Some(&find)) else {
            return Err(error);
        };
        simplified = collapsed;
        let still = move_nodes(&mut simplified, on, &mut moved)?;
        let is_tied = |(id, node): (NodeId, &Arc<Node>)| {
            let here = simplified.devices[id.index()] == host;
            here && !node.functions().is_empty() && gpu_handle(&simplified, node, context).is_some()
        };
        if still.is_some() || simplified.graph.nodes().any(is_tied) {
            return Err(still.unwrap_or(error));
        }
    }
    settle(&mut simplified, host);
    Ok((simplified, moved))
}

/// Returns the number of nodes that [`to_host`] moves, as far as that is known before it does.
pub(super) fn hosted_nodes(simplified: &Simplified, context: PlanContext<'_>) -> usize {
    let moves = |&id: &NodeId| move_reason(simplified, id, context).is_some();
    simplified.graph.ids().filter(moves).count()
}

/// Returns the reason that a node which is placed on a GPU moves to the host.
fn move_reason(simplified: &Simplified, id: NodeId, context: PlanContext<'_>) -> Option<String> {
    let node = simplified.graph.node(id);
    let device = &context.devices[simplified.devices[id.index()] as usize];
    let stays = device.gpu().is_none() || known(node) || std::ptr::eq(node.op, &FEED);
    match stays {
        true => None,
        false => reason(simplified, id, context, &Nesting::outside()),
    }
}

/// Moves nodes to the host; returns the error of the first call among them that uses a variable of a GPU.
///
/// # Errors
/// Another node that uses one.
fn move_nodes(
    simplified: &mut Simplified,
    (host, context): (u32, PlanContext<'_>),
    moved: &mut Vec<HostedNode>,
) -> Result<Option<SessionError>, SessionError> {
    let mut tied = None;
    for id in simplified.graph.ids() {
        let Some(why) = move_reason(simplified, id, context) else {
            continue;
        };
        let node = simplified.graph.node(id);
        let device = &context.devices[simplified.devices[id.index()] as usize];
        if let Some(variable) = gpu_handle(simplified, node, context) {
            let error = failed(
                node,
                KernelError::Invalid(format!(
                    "{why}, and its variable '{variable}' is on a GPU: place that on a CPU"
                )),
            );
            if node.functions().is_empty() {
                return Err(error);
            }
            tied = tied.or(Some(error));
        }
        moved.push(HostedNode {
            node: node.name.clone(),
            op: node.op.name,
            from: device.name().to_string(),
            why,
        });
        simplified.devices[id.index()] = host;
    }
    Ok(tied)
}

/// Returns the name of a variable on a GPU whose handle a node takes.
fn gpu_handle(simplified: &Simplified, node: &Node, context: PlanContext<'_>) -> Option<String> {
    let on_gpu = |i: &&OutputId| {
        let device = simplified.devices[i.node.index()];
        context.devices[device as usize].gpu().is_some()
    };
    let mut handles = node
        .inputs
        .iter()
        .filter(|&&i| is_handle(&simplified.graph, i));
    let handle = handles.find(on_gpu)?;
    Some(simplified.graph.node(handle.node).name.clone())
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

/// `true` for an op on lists, or on the arrays and stacks of TensorFlow 1, whose handles are no variables'.
fn has_list(graph: &GraphData, node: &Node) -> bool {
    let inputs = node.inputs.iter().filter_map(|&i| graph.fact(i));
    let mut facts = inputs.chain(&node.outputs);
    facts.any(|f| match f.dtype {
        DType::Variant => true,
        DType::Resource => f.variable.is_none(),
        _ => false,
    })
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
            Body::Host if node.op.effect == Effect::Collective => {
                return Some("GPUs have nothing for it between them");
            }
            Body::Host if has_list(graph, node) => {
                return Some("lists, arrays and stacks of tensors are kept by the host");
            }
            // Of a variable, the host answers where it stands.
            Body::Host if node.inputs.iter().any(|&i| is_handle(graph, i)) => return None,
            Body::Host => return Some("it is about shapes or indices, which the host has"),
            Body::Handle | Body::Nothing => return None,
            _ => {}
        },
    }
    let inputs = || node.inputs.iter().filter_map(|&i| graph.fact(i));
    let on_hosts = |f: &Fact| f.dtype == DType::Variant || !gpus_compute(f.dtype);
    if node.outputs.iter().any(on_hosts) || inputs().any(on_hosts) {
        return Some("a GPU takes no strings, complex numbers, lists and other variants");
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
    let late = |f: &Fact| f.dtype != DType::Resource && !f.shape.is_known();
    let live = node.attrs.live_outputs();
    let is_live = |i: i64| live.is_none_or(|live| live.contains(&i));
    let late_output = (0..).zip(&node.outputs).any(|(i, f)| is_live(i) && late(f));
    (late_output || inputs().any(late)).then_some("its shapes are known only when it runs")
}
