//! Parts of steps as messages.

mod making;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use thalweg_graph::function::calls;
use thalweg_graph::op::Effect;
use thalweg_graph::partition::{RECV, SEND, is_remote};
use thalweg_graph::simplify::{FEED, known};
use thalweg_graph::{
    Attr, DeviceSpec, Fact, Function, Graph, GraphData, Node, NodeId, OpDef, OutputId,
};
use thalweg_graphdef::messages::{FunctionDefLibrary, GraphDef};
use thalweg_graphdef::tensor::Budget;
use thalweg_graphdef::{ImportOptions, attr, dtype, export::function_to_proto, import, shape};
use thalweg_ops::NewGraph;
use thalweg_plan::{TaskChannel, TaskPart};
use thalweg_tensor::Tensor;

use super::WireError;
use super::messages as wire;
use crate::allowed::{AllowedOps, refused};
use crate::cluster::TaskName;
use making::Making;

/// The ops that a part can have, by name.
pub(crate) type Ops = HashMap<&'static str, &'static OpDef>;

/// Those of all kernels, and those that stand where a step is cut.
pub(crate) fn ops() -> Ops {
    let ops = thalweg_ops::ops().map(|op| &op.def);
    let ends = [&FEED, &SEND, &RECV];
    ops.chain(ends).map(|def| (def.name, def)).collect()
}

/// Whether what is known of a node's outputs is said, as it does not follow.
fn is_end(op: &OpDef) -> bool {
    std::ptr::eq(op, &FEED) || std::ptr::eq(op, &RECV)
}

/// A part, and the values of its known nodes, one after the other; `devices` and `tasks` name all of
/// the cluster, by number.
///
/// # Errors
/// It has what cannot be sent.
pub(crate) fn encoded(
    part: &TaskPart,
    channels: &[TaskChannel],
    devices: &[DeviceSpec],
    tasks: &[TaskName],
) -> Result<(wire::Part, Vec<Tensor>), WireError> {
    let mut values = Vec::new();
    let mut nodes = Vec::with_capacity(part.graph.len());
    for (id, node) in part.graph.nodes() {
        let known = known(node);
        let mut attrs = BTreeMap::new();
        for (name, value) in node.attrs.own().iter() {
            // The value of a constant goes by itself.
            if known && matches!(value, Attr::Tensor(_)) {
                continue;
            }
            attrs.insert(name.to_owned(), attr::to_proto(value)?);
        }
        if known {
            values.extend(node.outputs.iter().filter_map(|f| f.value.clone()));
        }
        let facts = match is_end(node.op) {
            true => node.outputs.iter().map(fact_to_proto).collect(),
            false => Vec::new(),
        };
        nodes.push(wire::Node {
            name: node.name.clone(),
            op: node.op.name.to_owned(),
            inputs: match known {
                true => Vec::new(),
                false => node.inputs.iter().copied().map(output).collect(),
            },
            controls: node.controls.iter().map(|c| number(*c)).collect(),
            attrs: attrs.into_iter().collect(),
            device: part.devices.get(id.index()).copied().unwrap_or(0),
            facts,
            known: if known { node.outputs.len() as u32 } else { 0 },
            origin: node.origin.to_string(),
        });
    }
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
        node: nodes,
        library: library(&part.graph)?,
        feeds: part.feeds.iter().map(|(_, n)| number(*n)).collect(),
        fetches: part.fetches.iter().map(|(_, o)| output(*o)).collect(),
        channels: self::channels(part.task, channels),
        apart: part.apart,
    };
    Ok((message, values))
}

/// The channels of a step that end at this task.
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

fn number(node: NodeId) -> u32 {
    u32::try_from(node.index()).unwrap_or(u32::MAX)
}

fn output(output: OutputId) -> wire::Output {
    wire::Output {
        node: number(output.node),
        index: output.index,
    }
}

fn fact_to_proto(fact: &Fact) -> wire::Fact {
    wire::Fact {
        dtype: dtype::to_number(fact.dtype),
        shape: Some(shape::to_proto(&fact.shape)),
    }
}

/// The functions that the nodes of a graph call, and those that those call.
fn library(graph: &GraphData) -> Result<Option<FunctionDefLibrary>, WireError> {
    let mut found: BTreeMap<&str, &Arc<Function>> = BTreeMap::new();
    let mut bodies = vec![graph];
    while let Some(body) = bodies.pop() {
        for (_, node) in body.nodes() {
            for name in calls(node.attrs.iter().map(|(_, a)| a)) {
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

/// What one part may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartLimits<'a> {
    pub(crate) nodes: usize,
    pub(crate) expanded_bytes: usize,
    pub(crate) ops: &'a AllowedOps,
}

/// The part that a message holds. Its devices are numbers in the message's list; its feeds and
/// fetches are numbered in their order. `values` gives one after the other what its known nodes are.
///
/// # Errors
/// What is wrong with it: it is checked as a file is.
pub(crate) fn decoded(
    message: &wire::Part,
    mut values: impl Iterator<Item = Tensor>,
    ops: &Ops,
    limits: PartLimits<'_>,
) -> Result<TaskPart, WireError> {
    let library = received_library(message, limits)?;
    let mut making = Making {
        graph: GraphData::new().with_library_of(&library),
        count: message.node.len(),
        ops,
        budget: Budget::new(limits.expanded_bytes),
        open: Vec::new(),
    };
    for node in &message.node {
        if !limits.ops.has(&node.op) {
            return Err(WireError::Forbidden(refused(&node.name, &node.op)));
        }
        making.add(node, &mut values)?;
    }
    let graph = making.closed()?;
    // What is sent between devices of a task is that task's own affair.
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
        apart: message.apart,
    })
}

fn received_library(message: &wire::Part, limits: PartLimits<'_>) -> Result<GraphData, WireError> {
    let graph = Graph::new();
    if let Some(library) = &message.library {
        let def = GraphDef {
            library: Some(library.clone()),
            ..GraphDef::default()
        };
        let options = ImportOptions {
            origin: "a part of a step".to_owned(),
            max_expanded_bytes: limits.expanded_bytes,
            max_nodes: limits.nodes,
            ..ImportOptions::default()
        };
        import(&graph, &def, &options).map_err(|e| WireError::Part(e.to_string()))?;
    }
    let library = GraphData::clone(&graph.snapshot());
    limits.ops.check(&library).map_err(WireError::Forbidden)?;
    Ok(library)
}
