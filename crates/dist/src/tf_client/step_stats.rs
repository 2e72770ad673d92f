//! Traces as `StepStats`, for TensorFlow's tools.

use std::collections::{BTreeMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_graph::Graph;
use thalweg_graphdef::{dtype, shape};
use thalweg_session::{Event, Trace};

use super::messages::{
    AllocationDescription, DeviceStepStats, NodeExecStats, NodeOutput, StepStats, TensorDescription,
};
use super::step_nodes::StepNodes;

/// Encodes the trace of a step that began at this time. The nodes of the step that did not run by themselves (constants,
/// handles, nodes that others stand for) take no time, so that TensorFlow's tools show them as used.
pub(super) fn step_stats(
    graph: &Graph,
    nodes: &StepNodes,
    began: SystemTime,
    trace: &Trace,
) -> StepStats {
    let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let began = began.as_micros() as i64;
    let ran: HashSet<&str> = trace.events.iter().map(|e| &*e.node).collect();
    let mut devices: BTreeMap<String, Vec<NodeExecStats>> = BTreeMap::new();
    for (name, device) in nodes.each() {
        let own = devices.entry(device).or_default();
        if !ran.contains(name) {
            own.push(NodeExecStats {
                node_name: name.to_owned(),
                all_start_micros: began,
                scheduled_micros: began,
                ..NodeExecStats::default()
            });
        }
    }
    for event in &trace.events {
        let own = devices.entry(event.device.clone()).or_default();
        own.push(stats(graph, began, event));
    }
    let device =
        |(device, node_stats): (String, Vec<NodeExecStats>)| DeviceStepStats { device, node_stats };
    StepStats {
        dev_stats: devices.into_iter().map(device).collect(),
    }
}

fn stats(graph: &Graph, began: i64, event: &Event) -> NodeExecStats {
    let start = began.saturating_add(event.start_us as i64);
    let took = event.duration_us.ceil() as i64;
    let data = graph.snapshot();
    let node = graph
        .find(&event.node)
        .and_then(|n| data.get(n.id()).cloned());
    let inputs: Vec<String> = node
        .iter()
        .flat_map(|n| n.inputs.iter().map(|i| data.output_name(*i)))
        .collect();
    let outputs = node.iter().flat_map(|n| n.outputs.iter().enumerate());
    let output = outputs.map(|(slot, fact)| NodeOutput {
        slot: slot as i32,
        tensor_description: Some(TensorDescription {
            dtype: dtype::to_number(fact.dtype),
            shape: Some(shape::to_proto(&fact.shape)),
            allocation_description: Some(AllocationDescription {
                requested_bytes: if slot == 0 { event.bytes as i64 } else { 0 },
                allocated_bytes: 0,
                allocator_name: "cpu".to_owned(),
            }),
        }),
    });
    NodeExecStats {
        node_name: event.node.clone(),
        all_start_micros: start,
        op_start_rel_micros: 0,
        op_end_rel_micros: took,
        all_end_rel_micros: took,
        output: output.collect(),
        timeline_label: format!("{} = {}({})", event.node, event.op, inputs.join(", ")),
        scheduled_micros: start,
        thread_id: event.thread as u32,
    }
}
