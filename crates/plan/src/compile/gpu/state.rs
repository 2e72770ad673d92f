//! State of a GPU program that outlives steps: variables, and the counters of random ops.

use smallvec::SmallVec;
use thalweg_device::KernelError;
use thalweg_graph::{Node, NodeId, OutputId};
use thalweg_tensor::{DType, Shape};

use super::{GpuBuilder, GpuValue};
use crate::error::SessionError;
use crate::error::failed;
use crate::gpu_program::{Access, GpuCommand, GpuPlace};
use crate::program::Action;

impl GpuBuilder<'_> {
    /// Shares the variable's memory if nothing updates it before the last use of what was read, and
    /// copies it otherwise.
    pub(super) fn read(
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
                self.push_command(id, GpuCommand::Copy { from, to, bytes });
            }
            GpuValue {
                place: to,
                buffer: Some(buffer),
            }
        } else {
            GpuValue {
                place,
                buffer: None,
            }
        };
        self.values.insert(output, value);
        self.made(output, value.place, &node.outputs[0]);
        Ok(())
    }

    /// Lets the host write whether a variable has a value: it knows the submitted assignments.
    pub(super) fn is_initialized(&mut self, id: NodeId, node: &Node, output: OutputId) {
        let own = self.bindings.variable_of[&node.inputs[0]];
        let variable = self.number(own);
        let (to, from) = (self.fixed(1), self.staged(1));
        let staged = from;
        let action = Action::IsInitialized { variable, staged };
        self.instruction(id, action, &[], &[]);
        self.push_command(id, GpuCommand::CopyIn { from, to, bytes: 1 });
        let value = GpuValue {
            place: to,
            buffer: None,
        };
        self.values.insert(output, value);
    }

    /// Returns a variable's number in the program.
    pub(super) fn number(&mut self, variable: usize) -> usize {
        let own = &self.bindings.variables[variable];
        let known = &mut self.commands.variables;
        let number = known.iter().position(|v| std::sync::Arc::ptr_eq(v, own));
        number.unwrap_or_else(|| {
            known.push(own.clone());
            known.len() - 1
        })
    }

    /// Returns a variable's place, and records the node's access.
    pub(super) fn variable(&mut self, node: NodeId, variable: usize, assigns: bool) -> GpuPlace {
        let number = self.number(variable);
        let access = Access {
            node,
            variable: number,
            assigns,
        };
        self.segment(node).variables.push(access);
        GpuPlace::Variable(number)
    }

    /// Checks that the handles of a node have the dtypes and shapes of the variables behind them, so that its shape
    /// rule and its kernel see the same, and that each input has a variable of its own.
    pub(super) fn check_handles(&self, node: &Node) -> Result<(), KernelError> {
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

    pub(super) fn counter(&mut self, node: &Node) -> Result<GpuPlace, SessionError> {
        let counters = &self.context.session.counters;
        let counter = counters
            .on_gpu(self.device as u32, self.gpu, &node.name)
            .map_err(|e| failed(node, e.into()))?;
        self.commands.counters.push(counter);
        Ok(GpuPlace::Counter(self.commands.counters.len() - 1))
    }
}
