//! Memory of a GPU program: places of values in buffers of the arena or behind it, and segments of commands.

use smallvec::SmallVec;
use thalweg_device::gpu::ALIGNMENT;
use thalweg_graph::{Fact, Node, NodeId, OutputId};
use thalweg_tensor::{DType, Shape, Tensor};

use super::{Buffer, GpuBuilder};
use crate::error::{SessionError, failed};
use crate::gpu_program::{GpuCommand, GpuPlace, Made, NodeCommand, Segment};
use crate::memory::LastUse;
use crate::program::{Action, Home, Instruction, SlotPlan};

impl GpuBuilder<'_> {
    pub(super) fn slot(&mut self, output: OutputId, dtype: DType, len: usize, home: Home) -> u32 {
        let slot = self.slots.len() as u32;
        self.slots.push(SlotPlan { dtype, len, home });
        self.slot_of.insert(output, slot);
        slot
    }

    /// Adds an instruction of the host.
    pub(super) fn instruction(
        &mut self,
        node: NodeId,
        action: Action,
        inputs: &[u32],
        outputs: &[u32],
    ) {
        // A captured segment is complete by itself, and the host reads finished results.
        self.join(node);
        self.open = false;
        if !self.guards.is_empty() {
            let number = self.instructions.len() as u32;
            self.commands.guards.insert(number, self.guards.clone());
        }
        self.instructions.push(Instruction {
            // The order of the whole step goes by the nodes that it has.
            node: self.caller.unwrap_or(node),
            action,
            inputs: inputs.into(),
            outputs: outputs.into(),
            variables: SmallVec::new(),
            counter: None,
            release: SmallVec::new(),
        });
    }

    /// Returns the segment that is open, or a new one.
    pub(super) fn segment(&mut self, node: NodeId) -> &mut Segment {
        if !self.open {
            let number = self.commands.segments.len();
            self.instruction(node, Action::Segment(number), &[], &[]);
            self.commands.segments.push(Segment::default());
            self.open = true;
        }
        let last = self.commands.segments.len() - 1;
        &mut self.commands.segments[last]
    }

    pub(super) fn push_command(&mut self, node: NodeId, command: GpuCommand) {
        let command = NodeCommand::of(node, command);
        self.segment(node).commands.push(command);
    }

    pub(super) fn fixed(&mut self, bytes: usize) -> GpuPlace {
        let offset = self.commands.fixed;
        self.commands.fixed += bytes.next_multiple_of(ALIGNMENT);
        GpuPlace::Fixed(offset)
    }

    pub(super) fn staged(&mut self, bytes: usize) -> usize {
        let offset = self.commands.staging;
        self.commands.staging += bytes.next_multiple_of(ALIGNMENT);
        offset
    }

    /// Returns the place of a constant.
    pub(super) fn constant(&mut self, output: OutputId, value: &Tensor) -> GpuPlace {
        if let Some(&place) = self.constants.get(&output) {
            return place;
        }
        let offset = self.commands.fixed;
        let place = self.fixed(value.bytes().len());
        self.commands.constants.push((offset, value.clone()));
        self.constants.insert(output, place);
        place
    }

    /// Returns the place of words that a launch reads.
    pub(super) fn table(&mut self, node: &Node, words: &[u64]) -> Result<GpuPlace, SessionError> {
        let fact = Fact::new(DType::U64, Shape::known(&[words.len()]));
        self.bytes(node, &fact)?;
        let table = Tensor::new(&[words.len()], words).map_err(|e| failed(node, e.into()))?;
        let offset = self.commands.fixed;
        let place = self.fixed(table.bytes().len());
        self.commands.constants.push((offset, table));
        Ok(place)
    }

    pub(super) fn bytes(&self, node: &Node, fact: &Fact) -> Result<usize, SessionError> {
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
                let device = &self.context.devices[self.device];
                crate::memory(device, node, fact.dtype, fact.shape.clone())
            })
    }

    /// Returns the place of an output; a constant is copied to the GPU for it.
    pub(super) fn place(&mut self, output: OutputId) -> Option<GpuPlace> {
        if let Some(value) = self.values.get(&output) {
            return Some(value.place);
        }
        let graph = self.graph;
        let value = graph.fact(output)?.value.as_ref()?;
        Some(self.constant(output, value))
    }

    /// Records that an output is there, for the check of every value.
    pub(super) fn made(&mut self, output: OutputId, place: GpuPlace, fact: &Fact) {
        let segment = self.segment(output.node);
        segment.made.push(Made {
            after: segment.commands.len(),
            output,
            place,
            dtype: fact.dtype,
            len: fact.shape.elements().unwrap_or(0),
        });
    }

    /// Takes a buffer of the arena that has so many uses.
    pub(super) fn buffer(&mut self, bytes: usize, left: u32) -> (GpuPlace, usize) {
        let block = (bytes > 0).then(|| self.arena.allocate(bytes, 0, &mut Vec::new()));
        let offset = block.map_or(0, |b| b.offset);
        self.buffers.push(Buffer { block, left });
        (GpuPlace::Arena(offset), self.buffers.len() - 1)
    }

    /// Counts a use of a value, and frees its memory after the last.
    pub(super) fn used(&mut self, output: OutputId) {
        let buffer = self.values.get(&output).and_then(|v| v.buffer);
        if let Some(buffer) = buffer {
            let buffer = &mut self.buffers[buffer];
            buffer.left = buffer.left.saturating_sub(1);
            self.free_if_unused(self.values[&output].buffer.unwrap_or(0));
        }
    }

    pub(super) fn free_if_unused(&mut self, buffer: usize) {
        let buffer = &mut self.buffers[buffer];
        if buffer.left == 0
            && let Some(block) = buffer.block.take()
        {
            self.arena.free(block, LastUse::default());
        }
    }
}
