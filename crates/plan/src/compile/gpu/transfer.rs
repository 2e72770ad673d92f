//! Transfers to and from a GPU: feeds, sends, receives, fetches.

use smallvec::SmallVec;
use thalweg_device::KernelError;
use thalweg_graph::partition::RECV;
use thalweg_graph::{Fact, Node, NodeId, OutputId};
use thalweg_tensor::{DType, Shape};

use super::{GpuBuilder, GpuValue};
use crate::error::SessionError;
use crate::error::failed;
use crate::gpu_program::{GpuCommand, NodeCommand};
use crate::program::{Action, Home, SlotPlan};

impl GpuBuilder<'_> {
    pub(super) fn feed(
        &mut self,
        id: NodeId,
        node: &Node,
        output: OutputId,
    ) -> Result<(), SessionError> {
        let fact = &node.outputs[0];
        let bytes = self.bytes(node, fact)?;
        let len = fact.shape.elements().unwrap_or(0);
        let slot = self.slot(output, fact.dtype, len, Home::Held);
        let (place, staged) = (self.fixed(bytes), self.staged(bytes));
        let value = GpuValue {
            place,
            buffer: None,
        };
        self.values.insert(output, value);
        self.commands.feeds.push((slot, staged));
        let command = GpuCommand::CopyIn {
            from: staged,
            to: place,
            bytes,
        };
        // Among the first commands, and so apart from the outputs that commands make.
        if bytes > 0 {
            let first = &mut self.commands.segments[0];
            first.commands.insert(0, NodeCommand::of(id, command));
            first.made.iter_mut().for_each(|m| m.after += 1);
        }
        Ok(())
    }

    pub(super) fn send(&mut self, id: NodeId, node: &Node) -> Result<(), SessionError> {
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

    /// Makes a slot of a value that is copied to another GPU from where it is.
    pub(super) fn sent(&mut self, output: OutputId) -> Result<u32, SessionError> {
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
    pub(super) fn copy_out(&mut self, id: NodeId, output: OutputId) -> Result<u32, SessionError> {
        let fact = self.graph.fact(output).cloned();
        let fact = fact.unwrap_or_else(|| Fact::new(DType::U8, Shape::known(&[0])));
        let len = fact.shape.elements().unwrap_or(0);
        let to = self.stage_out(id, output, &fact)?;
        let slot = self.slots.len() as u32;
        self.slots.push(SlotPlan {
            dtype: fact.dtype,
            len,
            home: Home::Staged(to),
        });
        Ok(slot)
    }

    /// Copies a value to the host's staging memory; returns the offset.
    pub(super) fn stage_out(
        &mut self,
        id: NodeId,
        output: OutputId,
        fact: &Fact,
    ) -> Result<usize, SessionError> {
        let node = self.graph.node(output.node);
        let bytes = self.bytes(node, fact)?;
        let to = self.staged(bytes);
        let missing = || failed(node, KernelError::Argument("a value"));
        let from = self.place(output).ok_or_else(missing)?;
        if bytes > 0 {
            self.push_command(id, GpuCommand::CopyOut { from, to, bytes });
        }
        Ok(to)
    }

    pub(super) fn receive(
        &mut self,
        id: NodeId,
        node: &Node,
        output: OutputId,
    ) -> Result<(), SessionError> {
        let fact = &node.outputs[0];
        if fact.dtype == DType::Resource || !fact.shape.is_known() {
            // It only orders the programs.
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
                self.push_command(id, GpuCommand::CopyIn { from, to, bytes });
            }
        }
        let value = GpuValue {
            place: to,
            buffer: None,
        };
        self.values.insert(output, value);
        Ok(())
    }

    pub(super) fn received(&mut self, id: NodeId, slot: u32) {
        let at = self.instructions.len() as u32;
        self.instruction(id, Action::Receive, &[], &[slot]);
        self.instruction_of.insert(id, SmallVec::from_elem(at, 1));
    }

    pub(super) fn fetch(&mut self, output: OutputId, last: NodeId) -> Result<(), SessionError> {
        self.join(last);
        if self.slot_of.contains_key(&output) && !self.is_received(output) {
            // A constant or a feed is on the host.
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

    pub(super) fn is_received(&self, output: OutputId) -> bool {
        let node = self.graph.node(output.node);
        std::ptr::eq(node.op, &RECV)
    }
}
