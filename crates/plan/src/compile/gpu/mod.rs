//! A GPU's program: one walk along its order asks kernels for their launches, gives values places, and gathers commands
//! between the host's actions into segments.

mod collective;
mod functions;
mod launch;
mod memory;
mod multi_tensor;
mod state;
mod transfer;
mod waiting;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use thalweg_device::gpu::{ALIGNMENT, Gpu};
use thalweg_device::{Body, DeviceType, Kernel};
use thalweg_graph::op::Effect;
use thalweg_graph::partition::{RECV, SEND};
use thalweg_graph::simplify::{FEED, known};
use thalweg_graph::{GraphData, Node, NodeId, OutputId};

use super::builder::Built;
use super::functions::Functions;
use super::uses::Uses;
use crate::bindings::Bindings;
use crate::error::SessionError;
use crate::gpu_program::{Commands, GpuCommand, GpuPlace, Guard};
use crate::kernels::{dtypes, find, no_kernel};
use crate::memory::{Arena, ArenaBlock};
use crate::order::Accesses;
use crate::program::{Action, Dependents, Home, Instruction, Program, SlotPlan};
use crate::request::PlanContext;
use waiting::{Turn, WaitingNode};

/// Nanoseconds of the host for a segment, and for each of its works: a graph that is launched as one takes the host no
/// longer for being long, so this is only an order of magnitude.
const SEGMENT_COST: u64 = 10_000;

pub(super) struct GpuBuilder<'a> {
    context: PlanContext<'a>,
    gpu: &'a Gpu,
    device: usize,
    graph: &'a GraphData,
    bindings: Bindings,
    accesses: Accesses,
    uses: Uses,
    arena: Arena,
    commands: Commands,
    /// By output: its place, and the buffer of the arena if it is in one.
    values: FxHashMap<OutputId, GpuValue>,
    /// Buffers of the arena.
    buffers: Vec<Buffer>,
    /// By constant: its place, once a node on the GPU needs it.
    constants: FxHashMap<OutputId, GpuPlace>,
    slots: Vec<SlotPlan>,
    slot_of: FxHashMap<OutputId, u32>,
    instructions: Vec<Instruction>,
    instruction_of: FxHashMap<NodeId, SmallVec<[u32; 2]>>,
    /// `true` if the last segment takes more commands.
    open: bool,
    /// The functions of branches and loops.
    functions: Functions,
    /// The outermost node that calls the function that the walk is in.
    caller: Option<NodeId>,
    /// The conditions of the functions that the walk is in, the outermost first.
    guards: SmallVec<[Guard; 1]>,
    /// By output: the place in the order of its last use, those of its views included.
    last_use: FxHashMap<OutputId, usize>,
    /// By variable: the places in the order of its updates.
    updates: Vec<Vec<usize>>,
    /// The nodes that send to other GPUs, and those that receive from them.
    to_gpu: FxHashSet<NodeId>,
    from_gpu: FxHashSet<NodeId>,
    /// Collectives that were begun, and that nothing has waited for yet.
    pending: Vec<Pending>,
    /// Nodes that wait for others of their function, in order.
    waiting: Vec<WaitingNode>,
    /// Collectives of one set that start together, and their bytes.
    group: Vec<(NodeId, GpuCommand)>,
    group_bytes: usize,
}

#[derive(Clone, Copy)]
struct GpuValue {
    place: GpuPlace,
    buffer: Option<usize>,
}

struct Buffer {
    block: Option<ArenaBlock>,
    /// Number of uses that are still to come; a fetch is one that never comes.
    left: u32,
}

/// A collective that was begun.
struct Pending {
    output: OutputId,
    set: usize,
    /// The buffers that it reads and writes: nothing else gets their memory before it is waited for.
    buffers: SmallVec<[usize; 2]>,
    /// `true` if it reads a variable.
    variable: bool,
}

impl<'a> GpuBuilder<'a> {
    pub(super) fn new(
        context: PlanContext<'a>,
        (device, gpu): (usize, &'a Gpu),
        graph: &'a GraphData,
        bindings: Bindings,
        accesses: Accesses,
        uses: Uses,
    ) -> GpuBuilder<'a> {
        GpuBuilder {
            context,
            gpu,
            device,
            graph,
            updates: vec![Vec::new(); accesses.variables],
            bindings,
            accesses,
            uses,
            arena: Arena::new(ALIGNMENT, 0),
            commands: Commands::default(),
            values: FxHashMap::default(),
            buffers: Vec::new(),
            constants: FxHashMap::default(),
            slots: Vec::new(),
            slot_of: FxHashMap::default(),
            instructions: Vec::new(),
            instruction_of: FxHashMap::default(),
            open: false,
            functions: Functions::default(),
            caller: None,
            guards: SmallVec::new(),
            last_use: FxHashMap::default(),
            to_gpu: FxHashSet::default(),
            from_gpu: FxHashSet::default(),
            pending: Vec::new(),
            waiting: Vec::new(),
            group: Vec::new(),
            group_bytes: 0,
        }
    }

    /// With these channels of the whole, of which this is part `number`: a value between two GPUs is
    /// copied from one to the other.
    pub(super) fn between(
        mut self,
        number: u32,
        cut: &[thalweg_graph::partition::Channel],
        parts: &[u32],
    ) -> Self {
        let on_gpu = |part: u32| {
            let device = parts
                .get(part as usize)
                .map(|&d| &self.context.devices[d as usize]);
            device.is_some_and(|d| d.gpu().is_some())
        };
        let both = cut.iter().filter(|c| on_gpu(c.from) && on_gpu(c.to));
        let (mut to_gpu, mut from_gpu) = (FxHashSet::default(), FxHashSet::default());
        for channel in both {
            if channel.from == number {
                to_gpu.insert(channel.send);
            }
            if channel.to == number {
                from_gpu.insert(channel.recv);
            }
        }
        self.to_gpu = to_gpu;
        self.from_gpu = from_gpu;
        self
    }

    /// With these functions, whose nodes are in the graph.
    pub(super) fn with(mut self, functions: Functions) -> Self {
        self.functions = functions;
        self
    }

    /// Builds the program that runs the nodes of the graph in this order and brings `fetched` to the host.
    pub(super) fn build(
        mut self,
        order: &[NodeId],
        fetched: &[OutputId],
    ) -> Result<Built, SessionError> {
        let (Some(&first), Some(&last)) = (order.first(), order.last()) else {
            return Ok(self.built());
        };
        let order = &self.casts_first(order);
        let all = self.with_functions(order);
        self.look_ahead(&all, fetched);
        self.instruction(first, Action::Stage, &[], &[]);
        // The first commands of a step are known only when all nodes have been walked.
        self.segment(first);
        self.walk(order, &mut 0)?;
        self.launch_all_waiting(last)?;
        for &output in fetched {
            self.fetch(output, last)?;
        }
        self.check(last);
        self.clear_statuses(first);
        self.instruction(last, Action::Wait, &[], &[]);
        Ok(self.built())
    }

    fn built(self) -> Built {
        let count = self.instructions.len();
        let chain: Vec<Vec<u32>> = (0..count as u32)
            .map(|i| i.checked_sub(1).into_iter().collect())
            .collect();
        let waits = self.instructions.iter().zip(&chain).map(|(i, chain)| {
            // A receive waits for its send too.
            chain.len() as u32 + u32::from(matches!(i.action, Action::Receive))
        });
        let cost = |i: &Instruction| match i.action {
            Action::Segment(_) => SEGMENT_COST,
            _ => 100,
        };
        Built {
            slot_of: self.slot_of,
            instruction_of: self.instruction_of,
            program: Program {
                device: self.device,
                arena: self.arena.len(),
                costs: self.instructions.iter().map(cost).collect(),
                dependents: Dependents::reversed(&chain),
                waits: waits.collect(),
                instructions: self.instructions,
                slots: self.slots,
                gpu: Some(self.commands),
                graph: GraphData::new(),
            },
        }
    }

    /// Finds the last uses of values and the updates of variables.
    fn look_ahead(&mut self, order: &[NodeId], fetched: &[OutputId]) {
        for &output in fetched {
            self.last_use.insert(output, usize::MAX);
        }
        for (at, id) in order.iter().enumerate() {
            // They are copied behind the nodes of the function.
            let results = self.functions.get(id).into_iter().flatten();
            for result in results.flat_map(|f| f.results.iter().flatten()) {
                let last = self.last_use.entry(*result).or_default();
                *last = (*last).max(at);
            }
        }
        for (at, &id) in order.iter().enumerate().rev() {
            let node = self.graph.node(id);
            let view = self.is_view(node);
            let own = OutputId { node: id, index: 0 };
            let own = self.last_use.get(&own).copied().filter(|_| view);
            for (i, &input) in node.inputs.iter().enumerate() {
                let passed = self
                    .passes(id, i)
                    .and_then(|o| self.last_use.get(&o).copied());
                let at = match i {
                    0 => own.unwrap_or(at).max(at),
                    _ => at,
                };
                let at = passed.unwrap_or(at).max(at);
                let last = self.last_use.entry(input).or_default();
                *last = (*last).max(at);
            }
            // Those of a caller are those of the nodes of its functions.
            if self.functions.contains_key(&id) {
                continue;
            }
            for &v in &self.accesses.updates[id.index()] {
                self.updates[v].push(at);
            }
        }
    }

    fn kernel(&self, node: &Node) -> Option<&'static Kernel> {
        find(self.context.kernels, DeviceType::Gpu, node).map(|(_, kernel)| kernel)
    }

    fn is_of_variable(&self, node: &Node) -> bool {
        let first = node.inputs.first();
        first.is_some_and(|i| self.bindings.variable_of.contains_key(i))
    }

    fn is_view(&self, node: &Node) -> bool {
        self.kernel(node)
            .is_some_and(|k| matches!(k.body, Body::View))
    }

    fn node(&mut self, at: usize, id: NodeId) -> Result<(), SessionError> {
        let graph = self.graph;
        let node = graph.node(id);
        let output = OutputId { node: id, index: 0 };
        if known(node) {
            // Nodes that wait for it come after those that it waits for.
            let after = self.waiting_before(id, node);
            self.launch_waiting(id, &after)?;
            for (index, fact) in node.outputs.iter().enumerate() {
                if let Some(value) = &fact.value {
                    let index = index as u32;
                    let home = Home::Constant(value.clone());
                    self.slot(OutputId { node: id, index }, fact.dtype, value.len(), home);
                }
            }
            return Ok(());
        }
        let Turn::Now(work) = self.turn(id, node)? else {
            return Ok(());
        };
        self.join_for(id, node);
        if std::ptr::eq(node.op, &FEED) {
            return self.feed(id, node, output);
        }
        if std::ptr::eq(node.op, &SEND) {
            self.check(id);
            return self.send(id, node);
        }
        if node.op.effect == Effect::Write {
            // A step with a rejected element must not change a variable.
            self.check(id);
        }
        if std::ptr::eq(node.op, &RECV) {
            return self.receive(id, node, output);
        }
        let kernel = self.kernel(node).ok_or_else(|| {
            no_kernel(
                self.context.kernels,
                node,
                dtypes(graph, node),
                DeviceType::Gpu,
            )
        })?;
        match kernel.body {
            Body::Handle | Body::Nothing => Ok(()),
            Body::View => {
                if let Some(&value) = node.inputs.first().and_then(|i| self.values.get(i)) {
                    self.values.insert(output, value);
                    if let Some(buffer) = value.buffer {
                        self.buffers[buffer].left += self.uses.of(output);
                    }
                    self.used(node.inputs[0]);
                } else if let Some(place) = self.place(node.inputs[0]) {
                    // A constant under other dimensions.
                    let buffer = None;
                    self.values.insert(output, GpuValue { place, buffer });
                }
                Ok(())
            }
            Body::Read => self.read(at, id, node, output),
            Body::Launch(_) => work.map_or(Ok(()), |work| self.launch(id, node, kernel, &work)),
            Body::Host if self.is_of_variable(node) => {
                self.is_initialized(id, node, output);
                Ok(())
            }
            Body::Host | Body::Functions | Body::Compute(_) | Body::Tensors(_) => Err(no_kernel(
                self.context.kernels,
                node,
                dtypes(graph, node),
                DeviceType::Gpu,
            )),
        }
    }
}

#[cfg(test)]
mod tests;
