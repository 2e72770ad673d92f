//! A GPU's program: one walk along its order asks kernels for their launches, gives values places,
//! and gathers what the host has no part in into segments.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use thalweg_device::gpu::{Arg, Gpu, GpuError, Launch, Launches, ReadyCall, Step};
use thalweg_device::{Body, DeviceType, Kernel, KernelError, Operand, Prepare};
use thalweg_graph::op::Effect;
use thalweg_graph::partition::{RECV, SEND};
use thalweg_graph::simplify::{FEED, known};
use thalweg_graph::tensor::ALIGNMENT;
use thalweg_graph::{DType, Fact, GraphData, Node, NodeId, OutputId, Shape, Tensor};

use super::builder::{Built, no_kernel};
use super::{Uses, Workshop};
use crate::error::SessionError;
use crate::exec::panicked;
use crate::plan::bindings::{Bindings, failed, find};
use crate::plan::gpu::{
    Access, Argument, Check, Commands, Made, Place, STATUS_BYTES, Segment, Task, Watched, Work,
};
use crate::plan::memory::{Arena, Block};
use crate::plan::order::Accesses;
use crate::plan::program::{Action, Dependents, Home, Instruction, Program, SlotPlan};

/// Nanoseconds of the host for a segment, and for each of its works: what is launched as one takes
/// the host no longer for being long, so this is only an order of magnitude.
const SEGMENT_COST: u64 = 10_000;

pub(super) struct GpuBuilder<'a> {
    workshop: Workshop<'a>,
    gpu: &'a Gpu,
    device: usize,
    graph: &'a GraphData,
    bindings: Bindings,
    accesses: Accesses,
    uses: Uses,
    arena: Arena,
    commands: Commands,
    /// By output: where it is, and the buffer of the arena if it is in one.
    values: FxHashMap<OutputId, Value>,
    /// Buffers of the arena.
    buffers: Vec<Buffer>,
    /// By constant: where it is, once something needs it there.
    constants: FxHashMap<OutputId, Place>,
    slots: Vec<SlotPlan>,
    slot_of: FxHashMap<OutputId, u32>,
    instructions: Vec<Instruction>,
    instruction_of: FxHashMap<NodeId, SmallVec<[u32; 2]>>,
    /// The segment that works are added to.
    open: bool,
    /// By output: the place in the order of its last use, those of its views included.
    last_use: FxHashMap<OutputId, usize>,
    /// By variable: the places in the order of its updates.
    updates: Vec<Vec<usize>>,
    /// The nodes that send to other GPUs, and those that receive from them.
    to_gpu: FxHashSet<NodeId>,
    from_gpu: FxHashSet<NodeId>,
}

#[derive(Clone, Copy)]
struct Value {
    place: Place,
    buffer: Option<usize>,
}

/// Where the arguments of a node's launches are.
struct Places<'n> {
    outputs: &'n [Place],
    variables: &'n [Option<Place>],
    /// An offset of the arena.
    scratch: usize,
    counter: Option<Place>,
    status: Option<Place>,
}

struct Buffer {
    block: Option<Block>,
    /// How many uses are still to come; a fetch is one that never comes.
    left: u32,
}

impl<'a> GpuBuilder<'a> {
    pub(super) fn new(
        workshop: Workshop<'a>,
        (device, gpu): (usize, &'a Gpu),
        graph: &'a GraphData,
        bindings: Bindings,
        accesses: Accesses,
        uses: Uses,
    ) -> GpuBuilder<'a> {
        GpuBuilder {
            workshop,
            gpu,
            device,
            graph,
            updates: vec![Vec::new(); accesses.variables],
            bindings,
            accesses,
            uses,
            arena: Arena::default(),
            commands: Commands::default(),
            values: FxHashMap::default(),
            buffers: Vec::new(),
            constants: FxHashMap::default(),
            slots: Vec::new(),
            slot_of: FxHashMap::default(),
            instructions: Vec::new(),
            instruction_of: FxHashMap::default(),
            open: false,
            last_use: FxHashMap::default(),
            to_gpu: FxHashSet::default(),
            from_gpu: FxHashSet::default(),
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
                .map(|&d| &self.workshop.devices[d as usize]);
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

    /// The program that runs the nodes of the graph in this order and brings `fetched` to the host.
    pub(super) fn build(
        mut self,
        order: &[NodeId],
        fetched: &[OutputId],
    ) -> Result<Built, SessionError> {
        let (Some(&first), Some(&last)) = (order.first(), order.last()) else {
            return Ok(self.built());
        };
        self.look_ahead(order, fetched);
        self.instruction(first, Action::Stage, &[], &[]);
        // What comes first in a step is known when all has been walked.
        self.segment(first);
        for (at, &id) in order.iter().enumerate() {
            self.node(at, id)?;
        }
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
        for (at, &id) in order.iter().enumerate().rev() {
            let node = self.graph.node(id);
            let view = self.is_view(node);
            let own = OutputId { node: id, index: 0 };
            let own = self.last_use.get(&own).copied().filter(|_| view);
            for (i, &input) in node.inputs.iter().enumerate() {
                let at = if i == 0 {
                    own.unwrap_or(at).max(at)
                } else {
                    at
                };
                let last = self.last_use.entry(input).or_default();
                *last = (*last).max(at);
            }
            for &v in &self.accesses.updates[id.index()] {
                self.updates[v].push(at);
            }
        }
    }

    fn kernel(&self, node: &Node) -> Option<&'static Kernel> {
        find(self.workshop.kernels, DeviceType::Gpu, node).map(|(_, kernel)| kernel)
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
            for (index, fact) in node.outputs.iter().enumerate() {
                if let Some(value) = &fact.value {
                    let index = index as u32;
                    let home = Home::Constant(value.clone());
                    self.slot(OutputId { node: id, index }, fact.dtype, value.len(), home);
                }
            }
            return Ok(());
        }
        if std::ptr::eq(node.op, &FEED) {
            return self.feed(id, node, output);
        }
        if std::ptr::eq(node.op, &SEND) {
            self.check(id);
            return self.send(id, node);
        }
        if node.op.effect == Effect::Write {
            // What an element has made impossible must not change a variable.
            self.check(id);
        }
        if std::ptr::eq(node.op, &RECV) {
            return self.receive(id, node, output);
        }
        let kernel = self
            .kernel(node)
            .ok_or_else(|| no_kernel(graph, node, DeviceType::Gpu))?;
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
                    self.values.insert(output, Value { place, buffer });
                }
                Ok(())
            }
            Body::Read => self.read(at, id, node, output),
            Body::Launch(launches) => self.launch(id, node, kernel, launches),
            Body::Host if self.is_of_variable(node) => {
                self.is_initialized(id, node, output);
                Ok(())
            }
            Body::Host | Body::Compute(_) => Err(no_kernel(graph, node, DeviceType::Gpu)),
        }
    }

    fn slot(&mut self, output: OutputId, dtype: DType, len: usize, home: Home) -> u32 {
        let slot = self.slots.len() as u32;
        self.slots.push(SlotPlan { dtype, len, home });
        self.slot_of.insert(output, slot);
        slot
    }

    /// An instruction of the host.
    fn instruction(&mut self, node: NodeId, action: Action, inputs: &[u32], outputs: &[u32]) {
        self.open = false;
        self.instructions.push(Instruction {
            node,
            action,
            inputs: inputs.into(),
            outputs: outputs.into(),
            variables: SmallVec::new(),
            counter: None,
            release: SmallVec::new(),
        });
    }

    /// The segment that is open, or a new one.
    fn segment(&mut self, node: NodeId) -> &mut Segment {
        if !self.open {
            let number = self.commands.segments.len();
            self.instruction(node, Action::Segment(number), &[], &[]);
            self.commands.segments.push(Segment::default());
            self.open = true;
        }
        let last = self.commands.segments.len() - 1;
        &mut self.commands.segments[last]
    }

    fn work(&mut self, node: NodeId, task: Task) {
        self.segment(node).works.push(Work { node, task });
    }

    fn fixed(&mut self, bytes: usize) -> Place {
        let offset = self.commands.fixed;
        self.commands.fixed += bytes.next_multiple_of(ALIGNMENT);
        Place::Fixed(offset)
    }

    fn staged(&mut self, bytes: usize) -> usize {
        let offset = self.commands.staging;
        self.commands.staging += bytes.next_multiple_of(ALIGNMENT);
        offset
    }

    /// Where a constant is.
    fn constant(&mut self, output: OutputId, value: &Tensor) -> Place {
        if let Some(&place) = self.constants.get(&output) {
            return place;
        }
        let offset = self.commands.fixed;
        let place = self.fixed(value.bytes().len());
        self.commands.constants.push((offset, value.clone()));
        self.constants.insert(output, place);
        place
    }

    fn bytes(&self, node: &Node, fact: &Fact) -> Result<usize, SessionError> {
        let bytes = fact.shape.elements();
        let bytes = bytes.and_then(|n| n.checked_mul(fact.dtype.size()));
        let taken = self.arena.len() + self.commands.fixed;
        bytes
            .filter(|&b| {
                taken
                    .checked_add(b)
                    .is_some_and(|t| t < isize::MAX as usize / 2)
            })
            .ok_or_else(|| {
                let device = &self.workshop.devices[self.device];
                crate::plan::memory(device, node, fact.dtype, fact.shape.clone())
            })
    }

    fn feed(&mut self, id: NodeId, node: &Node, output: OutputId) -> Result<(), SessionError> {
        let fact = &node.outputs[0];
        let bytes = self.bytes(node, fact)?;
        let len = fact.shape.elements().unwrap_or(0);
        let slot = self.slot(output, fact.dtype, len, Home::Held);
        let (place, staged) = (self.fixed(bytes), self.staged(bytes));
        let value = Value {
            place,
            buffer: None,
        };
        self.values.insert(output, value);
        self.commands.feeds.push((slot, staged));
        let task = Task::CopyIn {
            from: staged,
            to: place,
            bytes,
        };
        // Among what comes first, and so apart from the outputs that works make.
        if bytes > 0 {
            let first = &mut self.commands.segments[0];
            first.works.insert(0, Work { node: id, task });
            first.made.iter_mut().for_each(|m| m.after += 1);
        }
        Ok(())
    }

    fn send(&mut self, id: NodeId, node: &Node) -> Result<(), SessionError> {
        let channel = usize::try_from(node.attrs.int("channel")).unwrap_or(0);
        let mut slots: SmallVec<[u32; 1]> = SmallVec::new();
        if let Some(&input) = node.inputs.first() {
            slots.push(match self.to_gpu.contains(&id) {
                true => self.sent(input)?,
                false => self.copy_out(id, input)?,
            });
            self.used(input);
        }
        self.instruction(id, Action::Send { channel }, &slots, &[]);
        Ok(())
    }

    /// A slot of a value that is copied to another GPU from where it is.
    fn sent(&mut self, output: OutputId) -> Result<u32, SessionError> {
        let graph = self.graph;
        let missing = || failed(graph.node(output.node), KernelError::Argument("a value"));
        let place = self.place(output).ok_or_else(missing)?;
        let fact = graph.fact(output).ok_or_else(missing)?;
        let slot = self.slots.len() as u32;
        self.slots.push(SlotPlan {
            dtype: fact.dtype,
            len: fact.shape.elements().unwrap_or(0),
            home: Home::OnGpu(place),
        });
        Ok(slot)
    }

    /// Copies a value to a slot of the host.
    fn copy_out(&mut self, id: NodeId, output: OutputId) -> Result<u32, SessionError> {
        let graph = self.graph;
        let fact = graph.fact(output).cloned();
        let fact = fact.unwrap_or_else(|| Fact::new(DType::U8, Shape::known(&[0])));
        let bytes = self.bytes(graph.node(output.node), &fact)?;
        let len = fact.shape.elements().unwrap_or(0);
        let to = self.staged(bytes);
        let node = graph.node(output.node);
        let missing = || failed(node, KernelError::Argument("a value"));
        let from = self.place(output).ok_or_else(missing)?;
        if bytes > 0 {
            self.work(id, Task::CopyOut { from, to, bytes });
        }
        let slot = self.slots.len() as u32;
        self.slots.push(SlotPlan {
            dtype: fact.dtype,
            len,
            home: Home::Staged(to),
        });
        Ok(slot)
    }

    fn receive(&mut self, id: NodeId, node: &Node, output: OutputId) -> Result<(), SessionError> {
        let fact = &node.outputs[0];
        if fact.dtype == DType::Resource || !fact.shape.is_known() {
            // Only that it was sent matters.
            let slot = self.slot(output, fact.dtype, usize::MAX, Home::Held);
            self.received(id, slot);
            return Ok(());
        }
        let bytes = self.bytes(node, fact)?;
        let to = self.fixed(bytes);
        let len = fact.shape.elements().unwrap_or(0);
        if self.from_gpu.contains(&id) {
            let slot = self.slot(output, fact.dtype, len, Home::OnGpu(to));
            self.received(id, slot);
        } else {
            let from = self.staged(bytes);
            let slot = self.slot(output, fact.dtype, len, Home::Staged(from));
            self.received(id, slot);
            if bytes > 0 {
                self.work(id, Task::CopyIn { from, to, bytes });
            }
        }
        let value = Value {
            place: to,
            buffer: None,
        };
        self.values.insert(output, value);
        Ok(())
    }

    fn received(&mut self, id: NodeId, slot: u32) {
        let at = self.instructions.len() as u32;
        self.instruction(id, Action::Receive, &[], &[slot]);
        self.instruction_of.insert(id, SmallVec::from_elem(at, 1));
    }

    fn fetch(&mut self, output: OutputId, last: NodeId) -> Result<(), SessionError> {
        if self.slot_of.contains_key(&output) && !self.is_received(output) {
            // A constant or a feed, which the host has.
            return Ok(());
        }
        if let Some(fact) = self.graph.fact(output)
            && let Some(value) = fact.value.clone()
        {
            self.slot(output, value.dtype(), value.len(), Home::Constant(value));
            return Ok(());
        }
        let slot = self.copy_out(last, output)?;
        self.slot_of.insert(output, slot);
        Ok(())
    }

    fn is_received(&self, output: OutputId) -> bool {
        let node = self.graph.node(output.node);
        std::ptr::eq(node.op, &RECV)
    }

    /// Shares the variable's memory if nothing updates it before the last use of what was read, and
    /// copies it otherwise.
    fn read(
        &mut self,
        at: usize,
        id: NodeId,
        node: &Node,
        output: OutputId,
    ) -> Result<(), SessionError> {
        let variable = self.bindings.variable_of[&node.inputs[0]];
        let place = self.variable(id, variable, false);
        let last = self.last_use.get(&output).copied().unwrap_or(at);
        let updated = self.updates[variable]
            .iter()
            .any(|u| (at..=last).contains(u));
        let value = if updated {
            let bytes = self.bytes(node, &node.outputs[0])?;
            let (to, buffer) = self.buffer(bytes, self.uses.of(output));
            if bytes > 0 {
                let from = place;
                self.work(id, Task::Copy { from, to, bytes });
            }
            Value {
                place: to,
                buffer: Some(buffer),
            }
        } else {
            Value {
                place,
                buffer: None,
            }
        };
        self.values.insert(output, value);
        self.made(output, value.place, &node.outputs[0]);
        Ok(())
    }

    /// Notes that an output is there, for who looks at every value.
    fn made(&mut self, output: OutputId, place: Place, fact: &Fact) {
        let segment = self.segment(output.node);
        segment.made.push(Made {
            after: segment.works.len(),
            output,
            place,
            dtype: fact.dtype,
            len: fact.shape.elements().unwrap_or(0),
        });
    }

    /// Lets the host say whether a variable has a value: it knows what was handed over.
    fn is_initialized(&mut self, id: NodeId, node: &Node, output: OutputId) {
        let own = self.bindings.variable_of[&node.inputs[0]];
        let variable = self.number(own);
        let (to, from) = (self.fixed(1), self.staged(1));
        let staged = from;
        let action = Action::IsInitialized { variable, staged };
        self.instruction(id, action, &[], &[]);
        self.work(id, Task::CopyIn { from, to, bytes: 1 });
        let value = Value {
            place: to,
            buffer: None,
        };
        self.values.insert(output, value);
    }

    /// A variable's number in the program.
    fn number(&mut self, variable: usize) -> usize {
        let own = &self.bindings.variables[variable];
        let known = &mut self.commands.variables;
        let number = known.iter().position(|v| std::sync::Arc::ptr_eq(v, own));
        number.unwrap_or_else(|| {
            known.push(own.clone());
            known.len() - 1
        })
    }

    /// A variable's place, and what the node does with it.
    fn variable(&mut self, node: NodeId, variable: usize, assigns: bool) -> Place {
        let number = self.number(variable);
        let access = Access {
            node,
            variable: number,
            assigns,
        };
        self.segment(node).variables.push(access);
        Place::Variable(number)
    }

    /// A buffer of the arena that is still used so often.
    fn buffer(&mut self, bytes: usize, left: u32) -> (Place, usize) {
        let block = (bytes > 0).then(|| self.arena.take(bytes, &mut Vec::new()));
        let offset = block.map_or(0, |b| b.offset);
        self.buffers.push(Buffer { block, left });
        (Place::Arena(offset), self.buffers.len() - 1)
    }

    /// Notes a use of a value, and gives its memory back after the last.
    fn used(&mut self, output: OutputId) {
        let buffer = self.values.get(&output).and_then(|v| v.buffer);
        if let Some(buffer) = buffer {
            let buffer = &mut self.buffers[buffer];
            buffer.left = buffer.left.saturating_sub(1);
            self.free_if_unused(self.values[&output].buffer.unwrap_or(0));
        }
    }

    fn free_if_unused(&mut self, buffer: usize) {
        let buffer = &mut self.buffers[buffer];
        if buffer.left == 0
            && let Some(block) = buffer.block.take()
        {
            self.arena.give(block, &[]);
        }
    }

    fn launch(
        &mut self,
        id: NodeId,
        node: &Node,
        kernel: &'static Kernel,
        launches: thalweg_device::kernel::LaunchFn,
    ) -> Result<(), SessionError> {
        let graph = self.graph;
        let operand = |f: &Fact| Operand {
            dtype: f.dtype,
            dims: f.shape.to_dims().unwrap_or_default(),
            value: f.value.clone(),
        };
        let inputs: SmallVec<[Operand; 4]> = node
            .inputs
            .iter()
            .filter_map(|&o| graph.fact(o))
            .map(operand)
            .collect();
        let outputs: SmallVec<[Operand; 2]> = node.outputs.iter().map(operand).collect();
        let wanted = Prepare {
            cpu: self.gpu.host(),
            node,
            inputs: &inputs,
            outputs: &outputs,
        };
        let launches = catch_unwind(AssertUnwindSafe(|| launches(&wanted)))
            .map_err(|panic| panicked(node, &*panic))?
            .map_err(|source| failed(node, source))?;
        let mut to: SmallVec<[Place; 2]> = SmallVec::new();
        let mut replaced: SmallVec<[usize; 2]> = SmallVec::new();
        for (index, fact) in node.outputs.iter().enumerate() {
            let output = OutputId {
                node: id,
                index: index as u32,
            };
            let bytes = self.bytes(node, fact)?;
            let left = self.uses.of(output);
            let pairs = kernel.in_place.iter().filter(|(_, out)| *out == index);
            let mut candidates = pairs.filter_map(|(i, _)| {
                let same = inputs[*i].dtype == fact.dtype
                    && inputs[*i].elements() == outputs[index].elements();
                self.ends_here(node, *i).filter(|_| same)
            });
            let ending = candidates.find(|(buffer, _)| !replaced.contains(buffer));
            let value = match ending {
                Some((buffer, place)) => {
                    replaced.push(buffer);
                    let block = self.buffers[buffer].block.take();
                    self.buffers.push(Buffer { block, left });
                    Value {
                        place,
                        buffer: Some(self.buffers.len() - 1),
                    }
                }
                None => {
                    let (place, buffer) = self.buffer(bytes, left);
                    Value {
                        place,
                        buffer: Some(buffer),
                    }
                }
            };
            self.values.insert(output, value);
            to.push(value.place);
        }
        self.launches(id, node, &launches, &to)?;
        for (index, (place, fact)) in to.iter().zip(&node.outputs).enumerate() {
            let index = index as u32;
            self.made(OutputId { node: id, index }, *place, fact);
        }
        for &input in &node.inputs {
            self.used(input);
        }
        for index in 0..node.outputs.len() as u32 {
            let output = OutputId { node: id, index };
            if let Some(buffer) = self.values[&output].buffer {
                self.free_if_unused(buffer);
            }
        }
        Ok(())
    }

    /// The buffer of an input that is used here for the last time, and nowhere else in this node.
    fn ends_here(&self, node: &Node, input: usize) -> Option<(usize, Place)> {
        let value = self.values.get(&node.inputs[input])?;
        let buffer = value.buffer?;
        let here = node
            .inputs
            .iter()
            .filter(|i| self.values.get(i).and_then(|v| v.buffer) == Some(buffer))
            .count();
        let ends = self.buffers[buffer].left == 1 && self.buffers[buffer].block.is_some();
        (ends && here == 1).then_some((buffer, value.place))
    }

    fn launches(
        &mut self,
        id: NodeId,
        node: &Node,
        launches: &Launches,
        outputs: &[Place],
    ) -> Result<(), SessionError> {
        let ready = self
            .ready_calls(launches)
            .map_err(|e| failed(node, e.into()))?;
        let (own, workspace) = match (&ready, &launches.with_libraries) {
            (Some(calls), Some(with)) => {
                let most = calls.iter().map(|c| c.workspace).max();
                (with.scratch, most.unwrap_or(0))
            }
            _ => (launches.scratch, 0),
        };
        let own = own.next_multiple_of(ALIGNMENT);
        let scratch = match own + workspace {
            0 => 0,
            bytes => {
                let whole = Fact::new(DType::U8, Shape::known(&[bytes]));
                self.bytes(node, &whole)?;
                let block = self.arena.take(bytes, &mut Vec::new());
                // It lives for these launches, which take nothing else.
                self.arena.give(block, &[]);
                block.offset
            }
        };
        let status = launches.fault.clone().map(|fault| {
            self.commands.watched.push(Watched { node: id, fault });
            Place::Status(self.commands.watched.len() - 1)
        });
        let counter = match node.op.effect {
            Effect::Random => Some(self.counter(node)?),
            _ => None,
        };
        self.check_handles(node).map_err(|e| failed(node, e))?;
        let mut variables: SmallVec<[Option<Place>; 4]> = SmallVec::new();
        for input in &node.inputs {
            let variable = self.bindings.variable_of.get(input).copied();
            variables.push(variable.map(|v| self.variable(id, v, launches.assigns)));
        }
        let places = Places {
            outputs,
            variables: &variables,
            scratch,
            counter,
            status,
        };
        let (Some(calls), Some(with)) = (ready, &launches.with_libraries) else {
            let mut list = launches.list.iter();
            return list.try_for_each(|l| self.one_launch(id, node, l, &places));
        };
        let mut calls = calls.into_iter();
        for step in &with.steps {
            match step {
                Step::Launch(launch) => self.one_launch(id, node, launch, &places)?,
                Step::Call(_, args) => {
                    let missing = || failed(node, KernelError::Argument("an address"));
                    let call = calls.next().ok_or_else(missing)?.handle;
                    let mut at = [Place::Arena(0); 3];
                    for (at, arg) in at.iter_mut().zip(args) {
                        *at = self.argument(node, arg, &places).ok_or_else(missing)?;
                    }
                    let workspace = Place::Arena(scratch + own);
                    let task = Task::Call {
                        call,
                        places: at,
                        workspace,
                    };
                    self.work(id, task);
                }
            }
        }
        Ok(())
    }

    /// That the handles of a node say what is true of the variables behind them, so that what its
    /// shape rule has seen is what a kernel finds, and that each input has a variable of its own.
    fn check_handles(&self, node: &Node) -> Result<(), KernelError> {
        let mut seen: SmallVec<[usize; 4]> = SmallVec::new();
        for input in &node.inputs {
            let Some(&number) = self.bindings.variable_of.get(input) else {
                continue;
            };
            if seen.contains(&number) {
                return Err(KernelError::Invalid(
                    "one variable stands behind two of the inputs: give each its own".to_owned(),
                ));
            }
            seen.push(number);
            let variable = &self.bindings.variables[number];
            let said = self.graph.fact(*input).and_then(|f| f.variable.clone());
            let (dtype, shape) = said.unwrap_or((DType::Resource, Shape::unknown()));
            if dtype != variable.dtype() || shape != *variable.shape() {
                return Err(KernelError::Variable {
                    variable: variable.name().to_owned(),
                    expected_dtype: dtype,
                    expected: shape,
                    found_dtype: variable.dtype(),
                    found: variable.shape().clone(),
                });
            }
        }
        Ok(())
    }

    /// The calls of a kernel's steps with libraries, where all of them can be made.
    fn ready_calls(&self, launches: &Launches) -> Result<Option<Vec<ReadyCall>>, GpuError> {
        let Some(with) = &launches.with_libraries else {
            return Ok(None);
        };
        let mut ready = Vec::new();
        for step in &with.steps {
            if let Step::Call(call, _) = step {
                match self.gpu.prepare(call)? {
                    Some(call) => ready.push(call),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(ready))
    }

    /// Where an argument is that is an address.
    fn argument(&mut self, node: &Node, arg: &Arg, places: &Places<'_>) -> Option<Place> {
        match arg {
            Arg::Input(i) => node.inputs.get(*i).and_then(|&o| self.place(o)),
            Arg::Output(i) => places.outputs.get(*i).copied(),
            Arg::Variable(i) => places.variables.get(*i).copied().flatten(),
            Arg::Scratch(at) => Some(Place::Arena(places.scratch + at)),
            Arg::Counter => places.counter,
            Arg::Status => places.status,
            Arg::Value(_) => None,
        }
    }

    fn one_launch(
        &mut self,
        id: NodeId,
        node: &Node,
        launch: &Launch,
        places: &Places<'_>,
    ) -> Result<(), SessionError> {
        let mut arguments = SmallVec::new();
        for arg in &launch.args {
            arguments.push(match arg {
                Arg::Value(bytes) => Argument::Value(bytes.clone()),
                arg => {
                    let place = self.argument(node, arg, places);
                    let missing = || failed(node, KernelError::Argument("an address"));
                    Argument::Address(place.ok_or_else(missing)?)
                }
            });
        }
        let function = self
            .gpu
            .load(&launch.function)
            .map_err(|e| failed(node, e.into()))?;
        let task = Task::Launch {
            function,
            blocks: launch.blocks,
            threads: launch.threads,
            arguments,
        };
        self.work(id, task);
        Ok(())
    }

    /// Where an output is; a constant is brought to the GPU for it.
    fn place(&mut self, output: OutputId) -> Option<Place> {
        if let Some(value) = self.values.get(&output) {
            return Some(value.place);
        }
        let graph = self.graph;
        let value = graph.fact(output)?.value.as_ref()?;
        Some(self.constant(output, value))
    }

    fn counter(&mut self, node: &Node) -> Result<Place, SessionError> {
        let store = self.workshop.store;
        let counter = store
            .counter_on(self.device as u32, self.gpu, &node.name)
            .map_err(|e| failed(node, e.into()))?;
        self.commands.counters.push(counter);
        Ok(Place::Counter(self.commands.counters.len() - 1))
    }

    /// Lets the host look at the statuses that it has not looked at.
    fn check(&mut self, node: NodeId) {
        let first = self.commands.checks.last().map_or(0, |c| c.last);
        let last = self.commands.watched.len();
        if first == last {
            return;
        }
        let bytes = (last - first) * STATUS_BYTES;
        let staged = self.staged(bytes);
        let (from, to) = (Place::Status(first), staged);
        self.work(node, Task::CopyOut { from, to, bytes });
        let number = self.commands.checks.len();
        self.commands.checks.push(Check {
            first,
            last,
            staged,
        });
        self.instruction(node, Action::Check(number), &[], &[]);
    }

    /// Sets the statuses at the start of a step.
    fn clear_statuses(&mut self, first: NodeId) {
        let bytes = self.commands.watched.len() * STATUS_BYTES;
        if bytes > 0 {
            let to = Place::Status(0);
            let task = Task::Ones { to, bytes };
            let ones = Work { node: first, task };
            let segment = &mut self.commands.segments[0];
            segment.works.insert(0, ones);
            segment.made.iter_mut().for_each(|m| m.after += 1);
        }
    }
}
