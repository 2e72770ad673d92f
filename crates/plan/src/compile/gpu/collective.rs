//! Collectives between GPUs of ranks: begun in the order of the queue, they run beside it, and are waited for where
//! their results are used first.

use smallvec::SmallVec;
use thalweg_device::gpu::GpuCollective;
use thalweg_device::{KernelError, Operand};
use thalweg_graph::{Node, NodeId, OutputId};

use super::{GpuBuilder, Pending};
use crate::error::{SessionError, failed};
use crate::gpu_program::{GpuCommand, GpuPlace};

/// Bytes of a group of collectives: a group costs one launch, and begins with its last gradient. An estimate, as no machine
/// with several cards was there to measure.
const GROUP_BYTES: usize = 4 << 20;

impl GpuBuilder<'_> {
    /// Begins a collective of input 0, with its result at `to`.
    pub(super) fn collective(
        &mut self,
        id: NodeId,
        node: &Node,
        collective: GpuCollective,
        inputs: &[Operand],
        to: GpuPlace,
    ) -> Result<(), SessionError> {
        let ranks = self.context.collectives;
        let ranks = ranks.ok_or_else(|| failed(node, KernelError::NoRanks))?;
        // A rank that is not in the set gets an error before others wait for it.
        ranks.ranks(collective.set).map_err(|e| failed(node, e))?;
        let missing = || failed(node, KernelError::Argument("a value"));
        let (Some(input), Some(&source)) = (inputs.first(), node.inputs.first()) else {
            return Err(missing());
        };
        let elements = input.elements();
        if elements == 0 {
            return Ok(());
        }
        let from = self.place(source).ok_or_else(missing)?;
        let set = self.set(collective.set);
        self.commands.first.get_or_insert((collective.set, id));
        let command = GpuCommand::Collective {
            set,
            kind: collective.kind,
            dtype: input.dtype,
            from,
            to,
            elements,
        };
        self.grouped(id, command, set, elements * input.dtype.size());
        let output = OutputId { node: id, index: 0 };
        let buffer = |of: OutputId| self.values.get(&of).and_then(|v| v.buffer);
        let mut buffers: SmallVec<[usize; 2]> = [buffer(source), buffer(output)]
            .into_iter()
            .flatten()
            .collect();
        buffers.dedup();
        for &buffer in &buffers {
            self.buffers[buffer].left += 1;
        }
        self.pending.push(Pending {
            output,
            set,
            buffers,
            variable: matches!(from, GpuPlace::Variable(_)),
        });
        Ok(())
    }

    /// Adds a collective to the group, and lets the group start once it is large. Inputs and outputs are kept until
    /// all collectives have been waited for.
    fn grouped(&mut self, id: NodeId, command: GpuCommand, set: usize, bytes: usize) {
        let other = |(_, c): &(NodeId, GpuCommand)| !matches!(c, GpuCommand::Collective { set: s, .. } if *s == set);
        if self.group.iter().any(other) {
            self.start_group();
        }
        // The group starts in this segment.
        self.segment(id);
        self.group.push((id, command));
        self.group_bytes += bytes;
        if self.group_bytes >= GROUP_BYTES {
            self.start_group();
        }
    }

    /// Adds the commands of the group's collectives.
    fn start_group(&mut self) {
        let group = std::mem::take(&mut self.group);
        self.group_bytes = 0;
        let set = group.first().and_then(|(_, command)| match command {
            GpuCommand::Collective { set, .. } if group.len() > 1 => Some(*set),
            _ => None,
        });
        let ends = [group.first(), group.last()].map(|c| c.map(|(id, _)| *id));
        if let (Some(set), [Some(first), _]) = (set, ends) {
            self.push_command(first, GpuCommand::Group { set, begins: true });
        }
        for (id, command) in group {
            self.push_command(id, command);
        }
        if let (Some(set), [_, Some(last)]) = (set, ends) {
            let begins = false;
            self.push_command(last, GpuCommand::Group { set, begins });
        }
    }

    /// Returns the number of a set in the program.
    fn set(&mut self, set: i32) -> usize {
        let known = &mut self.commands.sets;
        let number = known.iter().position(|&s| s == set);
        number.unwrap_or_else(|| {
            known.push(set);
            known.len() - 1
        })
    }

    /// Waits for the collectives whose results a node uses, or whose inputs it may change.
    pub(super) fn join_for(&mut self, id: NodeId, node: &Node) {
        let updates = !self.accesses.updates[id.index()].is_empty();
        let concerns = |p: &Pending| node.inputs.contains(&p.output) || updates && p.variable;
        if self.pending.iter().any(concerns) {
            self.join(id);
        }
    }

    /// Waits for all collectives that were begun.
    pub(super) fn join(&mut self, id: NodeId) {
        self.start_group();
        let pending = std::mem::take(&mut self.pending);
        let mut sets: SmallVec<[usize; 2]> = pending.iter().map(|p| p.set).collect();
        sets.sort_unstable();
        sets.dedup();
        for set in sets {
            self.push_command(id, GpuCommand::Join { set });
        }
        for buffer in pending.into_iter().flat_map(|p| p.buffers) {
            let left = &mut self.buffers[buffer].left;
            *left = left.saturating_sub(1);
            self.free_if_unused(buffer);
        }
    }
}
