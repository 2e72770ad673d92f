//! The work of a step on a GPU: launches, library calls, and the bytes that nodes read and write.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use thalweg_device::Device;
use thalweg_graph::op::Effect;
use thalweg_graph::{Fact, GraphData, Node, NodeId, OutputId};

use crate::gpu_program::{Argument, Commands, GpuCommand, GpuPlace};
use crate::plan::Plan;

/// The nodes of one op in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpWork {
    /// Number of nodes that launch or call something.
    pub nodes: usize,
    /// Number of launches of kernels, those around library calls included.
    pub launches: usize,
    /// Number of calls of libraries.
    pub calls: usize,
    /// Bytes of the values and variables that the nodes read and write, each once for each node that has it. Memory between
    /// the launches of one node is not in it.
    pub bytes: u64,
    /// Number of times that a launch or a call reads or writes a value of 10 MB or more that is no variable: of a large batch
    /// those are the activations.
    pub passes: usize,
}

/// Bytes of a large value.
const LARGE: u64 = 10_000_000;

/// The work of a step on one GPU. Of a conditional both branches are counted, and of a loop one iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuWork {
    /// The name of the GPU.
    pub device: String,
    /// By op.
    pub ops: BTreeMap<&'static str, OpWork>,
    /// Number of parts that are captured and launched as one.
    pub segments: usize,
    /// Bytes that are copied from the host and to it.
    pub host_bytes: u64,
    /// By op: number of nodes that were placed on this GPU and run on the host.
    pub on_host: BTreeMap<&'static str, usize>,
}

impl GpuWork {
    /// Returns the sums over all ops.
    pub fn total(&self) -> OpWork {
        let mut total = OpWork::default();
        for op in self.ops.values() {
            total.nodes += op.nodes;
            total.launches += op.launches;
            total.calls += op.calls;
            total.bytes += op.bytes;
            total.passes += op.passes;
        }
        total
    }
}

impl Plan {
    /// Returns the work of a step on each GPU, in the order of the programs.
    pub fn gpu_work(&self, devices: &[Device]) -> Vec<GpuWork> {
        let of = |p: &crate::Program| {
            let commands = p.gpu.as_ref()?;
            let device = devices[p.device].name().to_string();
            let mut work = work(&p.graph, commands, device);
            for moved in self.moved.iter().filter(|m| m.from == work.device) {
                *work.on_host.entry(moved.op).or_default() += 1;
            }
            Some(work)
        };
        self.programs.iter().filter_map(of).collect()
    }
}

fn work(graph: &GraphData, commands: &Commands, device: String) -> GpuWork {
    let mut work = GpuWork {
        device,
        ops: BTreeMap::new(),
        segments: commands.segments.len(),
        host_bytes: 0,
        on_host: BTreeMap::new(),
    };
    let mut seen: FxHashSet<NodeId> = FxHashSet::default();
    let made = commands.segments.iter().flat_map(|s| &s.made);
    let places = made.map(|m| (m.output, m.place)).collect();
    let all = commands.segments.iter().flat_map(|s| &s.commands);
    for command in all {
        let launched = match command.command {
            GpuCommand::Launch { .. } => true,
            GpuCommand::Call { .. } => false,
            GpuCommand::CopyIn { bytes, .. } | GpuCommand::CopyOut { bytes, .. } => {
                work.host_bytes += bytes as u64;
                continue;
            }
            GpuCommand::Copy { bytes, .. } => {
                let op = work.ops.entry(graph.node(command.node).op.name);
                op.or_default().bytes += 2 * bytes as u64;
                continue;
            }
            _ => continue,
        };
        let node = graph.node(command.node);
        let op = work.ops.entry(node.op.name).or_default();
        match launched {
            true => op.launches += 1,
            false => op.calls += 1,
        }
        op.passes += passes(graph, command.node, &places, &addresses(&command.command));
        for &id in std::iter::once(&command.node).chain(&command.others) {
            if seen.insert(id) {
                op.nodes += 1;
                op.bytes += node_bytes(graph, graph.node(id));
            }
        }
    }
    work
}

/// The places that a launch or a call gets.
fn addresses(command: &GpuCommand) -> SmallVec<[GpuPlace; 8]> {
    match command {
        GpuCommand::Launch { arguments, .. } => {
            let place = |argument: &Argument| match argument {
                Argument::Address(place) => Some(*place),
                Argument::Value(_) => None,
            };
            arguments.iter().filter_map(place).collect()
        }
        GpuCommand::Call { places, .. } => SmallVec::from_slice(places),
        _ => SmallVec::new(),
    }
}

/// Counts the places that hold a large value of a node. A variable is none.
fn passes(
    graph: &GraphData,
    id: NodeId,
    places: &FxHashMap<OutputId, GpuPlace>,
    addresses: &[GpuPlace],
) -> usize {
    let node = graph.node(id);
    let outputs = (0..node.outputs.len() as u32).map(|index| OutputId { node: id, index });
    let is_large = |output: &OutputId| {
        let fact = graph.fact(*output);
        fact.is_some_and(|f| f.variable.is_none() && bytes(f) >= LARGE)
    };
    let values = node.inputs.iter().copied().chain(outputs).filter(is_large);
    let large: SmallVec<[GpuPlace; 8]> = values.filter_map(|o| places.get(&o).copied()).collect();
    addresses.iter().filter(|a| large.contains(a)).count()
}

/// Bytes that a node reads and writes, each value once; a variable that it updates counts twice.
fn node_bytes(graph: &GraphData, node: &Node) -> u64 {
    let updates = node.op.effect == Effect::Write;
    let read = node.inputs.iter().enumerate().map(|(i, &input)| {
        let fact = graph.fact(input);
        let times = match fact {
            // The kernel has it as a number.
            _ if node.is_host_input(i) => 0,
            Some(Fact {
                variable: Some(_), ..
            }) if updates => 2,
            _ => 1,
        };
        times * fact.map_or(0, bytes)
    });
    read.chain(node.outputs.iter().map(bytes)).sum()
}

/// Bytes of a value, or of the variable behind a handle.
fn bytes(fact: &Fact) -> u64 {
    let (dtype, shape) = match &fact.variable {
        Some((dtype, shape)) => (*dtype, shape),
        None => (fact.dtype, &fact.shape),
    };
    let elements = shape.elements().unwrap_or(0);
    elements as u64 * dtype.size() as u64
}
