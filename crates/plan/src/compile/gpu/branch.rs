//! Branches: the host waits for a condition, and submits the segments of one side.

use smallvec::SmallVec;
use thalweg_device::KernelError;
use thalweg_graph::{NodeId, OutputId};

use super::{GpuBuilder, GpuValue};
use crate::compile::branches::Side;
use crate::error::{SessionError, failed};
use crate::gpu_program::{GpuCommand, GpuPlace, Guard};
use crate::program::Action;

impl GpuBuilder<'_> {
    /// Returns an order with the nodes of branches in front of the node that has them.
    pub(super) fn with_branches(&self, order: &[NodeId]) -> Vec<NodeId> {
        let mut all = Vec::with_capacity(order.len());
        for &id in order {
            for side in self.branches.get(&id).into_iter().flatten() {
                all.extend(self.with_branches(&side.order));
            }
            all.push(id);
        }
        all
    }

    /// Builds nodes in this order, from place `at` of the whole order on, those of branches included.
    pub(super) fn walk(&mut self, order: &[NodeId], at: &mut usize) -> Result<(), SessionError> {
        for &id in order {
            match self.branches.remove(&id) {
                Some(sides) => self.branch(id, &sides, at)?,
                None => self.node(*at, id)?,
            }
            *at += 1;
        }
        Ok(())
    }

    fn branch(
        &mut self,
        id: NodeId,
        sides: &[Side; 2],
        at: &mut usize,
    ) -> Result<(), SessionError> {
        let graph = self.graph;
        let node = graph.node(id);
        self.join_for(id, node);
        // The statuses so far: a check of a side has those of the side alone.
        self.check(id);
        let condition = node.inputs[0];
        let missing = || failed(node, KernelError::Argument("a condition"));
        let fact = graph.fact(condition).ok_or_else(missing)?;
        let staged = self.stage_out(id, condition, fact)?;
        self.instruction(id, Action::Wait, &[], &[]);
        // The sides write their results to the same places.
        let mut to: SmallVec<[(GpuPlace, usize); 2]> = SmallVec::new();
        for (index, fact) in (0..).zip(&node.outputs) {
            let output = OutputId { node: id, index };
            let used = self.uses.of(output);
            let bytes = match used {
                0 => 0,
                _ => self.bytes(node, fact)?,
            };
            let (place, buffer) = self.buffer(bytes, used);
            self.values.insert(
                output,
                GpuValue {
                    place,
                    buffer: Some(buffer),
                },
            );
            to.push((place, bytes));
        }
        for (side, runs_if) in sides.iter().zip([true, false]) {
            self.open = false;
            self.guards.push(Guard { staged, runs_if });
            self.walk(&side.order, at)?;
            for (result, &(to, bytes)) in side.results.iter().zip(&to) {
                let Some(result) = *result else { continue };
                if bytes > 0 {
                    let missing = || failed(node, KernelError::Argument("a value"));
                    let from = self.place(result).ok_or_else(missing)?;
                    self.push_command(id, GpuCommand::Copy { from, to, bytes });
                }
                self.used(result);
            }
            self.join(id);
            self.check(id);
            self.guards.pop();
            self.open = false;
        }
        for &input in &node.inputs {
            self.used(input);
        }
        Ok(())
    }
}
