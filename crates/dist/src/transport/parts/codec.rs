//! Encodes and decodes one part of a step (the graph that one task runs), with limits on decoded parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_graph::flow::REGION;
use thalweg_graph::op::{Calls, Effect};
use thalweg_graph::partition::is_remote;
use thalweg_graph::simplify::FEED;
use thalweg_graph::{DeviceSpec, Function, Graph, GraphData, Node, OutputId};
use thalweg_graphdef::messages::{FunctionDefLibrary, GraphDef};
use thalweg_graphdef::tensor::Budget;
use thalweg_graphdef::{ImportOptions, export::function_to_proto, import};
use thalweg_ops::NewGraph;
use thalweg_plan::{TaskChannel, TaskPart};
use thalweg_tensor::Tensor;

use super::decode::PartDecoder;
use super::encode::{PartEncoder, number, output, region_of};
use super::ops::OpTable;
use crate::cluster::spec::TaskName;
use crate::limits::allowed_ops::AllowedOps;
use crate::transport::messages as wire;
use crate::transport::wire_error::WireError;

/// Encodes a part. Also returns the values of its constant nodes, in order. `devices` and `tasks` are those of the
/// cluster, by number.
///
/// # Errors
/// A node cannot be sent.
pub(crate) fn encoded(
    part: &TaskPart,
    channels: &[TaskChannel],
    devices: &[DeviceSpec],
    tasks: &[TaskName],
) -> Result<(wire::Part, Vec<Tensor>), WireError> {
    let mut values = Vec::new();
    let encoding = PartEncoder {
        graph: &part.graph,
        devices: &part.devices,
    };
    let node = encoding.nodes(0, &mut values)?;
    let peer = |(number, (job, index)): (usize, &TaskName)| wire::Task {
        job: job.clone(),
        index: *index,
        number: number as u32,
        ..wire::Task::default()
    };
    let message = wire::Part {
        task: part.task,
        peers: tasks.iter().enumerate().map(peer).collect(),
        devices: devices.iter().map(ToString::to_string).collect(),
        node,
        library: library(&part.graph)?,
        feeds: part.feeds.iter().map(|(_, n)| number(*n)).collect(),
        fetches: part.fetches.iter().map(|(_, o)| output(*o)).collect(),
        channels: self::channels(part.task, channels),
        apart: part.separate_memory,
    };
    Ok((message, values))
}

/// Returns the channels of a step that end at this task.
pub(crate) fn channels(task: u32, all: &[TaskChannel]) -> Vec<wire::Channel> {
    let own = |(number, c): (usize, &TaskChannel)| {
        let sends = c.from == task;
        (sends || c.to == task).then_some(wire::Channel {
            number: number as i64,
            peer: if sends { c.to } else { c.from },
            sends,
        })
    };
    all.iter().enumerate().filter_map(own).collect()
}

/// Returns the functions that the nodes of a graph call, transitively: all, if one calls functions that its inputs hold. A
/// region is sent with its node.
fn library(graph: &GraphData) -> Result<Option<FunctionDefLibrary>, WireError> {
    let mut found: BTreeMap<&str, &Arc<Function>> = BTreeMap::new();
    let mut bodies = vec![graph];
    while let Some(body) = bodies.pop() {
        for (_, node) in body.nodes() {
            if std::ptr::eq(node.op, &REGION) {
                bodies.extend(region_of(graph, node).map(|f| &f.body));
                continue;
            }
            if node.op.calls == Calls::Held {
                found.extend(graph.functions().iter().map(|(name, f)| (&**name, f)));
            }
            for name in node.functions() {
                if let Some(function) = graph.function(name)
                    && found.insert(name, function).is_none()
                {
                    bodies.push(&function.body);
                }
            }
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let functions = found.values().map(|f| function_to_proto(f));
    let function = functions.collect::<Result<_, _>>();
    Ok(Some(FunctionDefLibrary {
        function: function.map_err(|e| WireError::Part(e.to_string()))?,
        ..FunctionDefLibrary::default()
    }))
}

/// Limits of one part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartLimits<'a> {
    pub(crate) nodes: usize,
    pub(crate) expanded_bytes: usize,
    pub(crate) ops: &'a AllowedOps,
}

/// Decodes a part. Its devices are indices of the message's list; its feeds and fetches are numbered in order.
/// `values` yields the values of its constant nodes, in order.
///
/// # Errors
/// The part is invalid: it is checked as a file is.
pub(crate) fn decoded(
    message: &wire::Part,
    mut values: impl Iterator<Item = Tensor>,
    ops: &OpTable,
    limits: PartLimits<'_>,
) -> Result<TaskPart, WireError> {
    let library = received_library(message, limits)?;
    let mut budget = Budget::new(limits.expanded_bytes);
    let making = PartDecoder {
        graph: GraphData::new().with_library_of(&library),
        count: message.node.len(),
        ops,
        allowed: limits.ops,
        budget: &mut budget,
        is_region: false,
        open: Vec::new(),
    };
    let graph = making.of(&message.node, &mut values);
    let graph = graph.map_err(|e| match budget.has_refused() {
        true => WireError::Expanded(Box::new(e)),
        false => e,
    })?;
    // Transfers between devices of a task are not part of a message: the task adds its own.
    let local = |n: &Node| matches!(n.op.effect, Effect::Send | Effect::Recv) && !is_remote(n);
    if let Some((_, node)) = graph.nodes().find(|(_, n)| local(n)) {
        let name = &node.name;
        return Err(WireError::Part(format!(
            "node '{name}' ends in no other task"
        )));
    }
    let part_node = |number: u32| {
        let id = graph.id(number as usize);
        let missing = || WireError::Part(format!("it has no node {number}"));
        graph.get(id).map(|node| (id, node)).ok_or_else(missing)
    };
    let mut feeds = Vec::with_capacity(message.feeds.len());
    for (index, &number) in message.feeds.iter().enumerate() {
        let (id, node) = part_node(number)?;
        if !std::ptr::eq(node.op, &FEED) {
            return Err(WireError::Part(format!("node '{}' is no feed", node.name)));
        }
        feeds.push((index, id));
    }
    let mut fetches = Vec::with_capacity(message.fetches.len());
    for (index, o) in message.fetches.iter().enumerate() {
        let (node, _) = part_node(o.node)?;
        let output = OutputId {
            node,
            index: o.index,
        };
        if graph.fact(output).is_none() {
            let name = graph.output_name(output);
            return Err(WireError::Part(format!("it has no output {name}")));
        }
        fetches.push((index, output));
    }
    Ok(TaskPart {
        task: message.task,
        devices: message.node.iter().map(|n| n.device).collect(),
        graph,
        feeds,
        fetches,
        separate_memory: message.apart,
    })
}

fn received_library(message: &wire::Part, limits: PartLimits<'_>) -> Result<GraphData, WireError> {
    let graph = Graph::new();
    if let Some(library) = &message.library {
        let def = GraphDef {
            library: Some(library.clone()),
            ..GraphDef::default()
        };
        let options = ImportOptions::new()
            .origin("a part of a step")
            .max_expanded_bytes(limits.expanded_bytes)
            .max_nodes(limits.nodes);
        import(&graph, &def, &options).map_err(|e| {
            let wrong = WireError::Part(e.to_string());
            match e.exceeds_expansion_limit() {
                true => WireError::Expanded(Box::new(wrong)),
                false => wrong,
            }
        })?;
    }
    let library = GraphData::clone(&graph.snapshot());
    limits.ops.check(&library).map_err(WireError::Forbidden)?;
    Ok(library)
}
