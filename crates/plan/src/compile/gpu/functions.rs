//! Branches and loops: the host waits for a condition, and submits the segments of a function.

use smallvec::SmallVec;
use thalweg_device::KernelError;
use thalweg_graph::op::Calls;
use thalweg_graph::{Node, NodeId, OutputId};

use super::{GpuBuilder, GpuValue};
use crate::compile::functions::Inlined;
use crate::error::{SessionError, failed};
use crate::gpu_program::{GpuCommand, GpuPlace, Guard};
use crate::program::Action;

/// A value that a function writes: an output of its caller.
struct CallResult {
    index: usize,
    place: GpuPlace,
    bytes: usize,
    /// The buffer of the place.
    buffer: usize,
}

fn missing(node: &Node) -> SessionError {
    failed(node, KernelError::Argument("a value"))
}

impl GpuBuilder<'_> {
    /// Returns an order with the nodes of functions in front of the node that calls them.
    pub(super) fn with_functions(&self, order: &[NodeId]) -> Vec<NodeId> {
        let mut all = Vec::with_capacity(order.len());
        for &id in order {
            for function in self.functions.get(&id).into_iter().flatten() {
                all.extend(self.with_functions(&function.order));
            }
            all.push(id);
        }
        all
    }

    /// Builds nodes in this order, from place `at` of the whole order on, those of functions included.
    pub(super) fn walk(&mut self, order: &[NodeId], at: &mut usize) -> Result<(), SessionError> {
        for &id in order {
            match self.functions.remove(&id) {
                None => self.node(*at, id)?,
                Some(functions) => {
                    let outermost = self.caller.is_none();
                    self.caller.get_or_insert(id);
                    let node = self.graph.node(id);
                    self.launch_all_waiting(id)?;
                    self.join_for(id, node);
                    // The statuses so far: a check of a function has those of the function alone.
                    self.check(id);
                    match node.op.calls {
                        Calls::Loop => self.repeat(id, &functions, at)?,
                        _ => self.branch(id, &functions, at)?,
                    }
                    for &input in &node.inputs {
                        self.used(input);
                    }
                    if outermost {
                        self.open = false;
                        self.caller = None;
                    }
                }
            }
            *at += 1;
        }
        Ok(())
    }

    /// Returns the output that is input `i` of a loop, which no iteration changes.
    pub(super) fn passes(&self, id: NodeId, i: usize) -> Option<OutputId> {
        let [_, body] = self.functions.get(&id)?;
        let loops = matches!(self.graph.node(id).op.calls, Calls::Loop);
        let kept = loops && body.results.get(i)?.is_none();
        kept.then_some(OutputId {
            node: id,
            index: i as u32,
        })
    }

    fn branch(
        &mut self,
        id: NodeId,
        functions: &[Inlined; 2],
        at: &mut usize,
    ) -> Result<(), SessionError> {
        let node = self.graph.node(id);
        let staged = self.condition(id, node.inputs[0])?;
        // Both write their results to the same places.
        let mut to: SmallVec<[CallResult; 2]> = SmallVec::new();
        for index in 0..node.outputs.len() {
            to.push(self.result(id, index, 0)?);
        }
        for (function, runs_if) in functions.iter().zip([true, false]) {
            self.guarded(Guard { staged, runs_if }, id, function, &to, at)?;
        }
        Ok(())
    }

    /// Repeats the instructions of the condition and of the body for as long as the condition says so.
    fn repeat(
        &mut self,
        id: NodeId,
        [condition, body]: &[Inlined; 2],
        at: &mut usize,
    ) -> Result<(), SessionError> {
        let node = self.graph.node(id);
        let mut changed: SmallVec<[CallResult; 2]> = SmallVec::new();
        for (index, &input) in node.inputs.iter().enumerate() {
            match body.results[index] {
                None => self.pass(id, index, input),
                Some(_) => {
                    // It has a use more than readers: the next iteration.
                    let result = self.result(id, index, 1)?;
                    let from = self.place(input).ok_or_else(|| missing(node))?;
                    self.copied(id, from, &result);
                    changed.push(result);
                }
            }
        }
        let first = self.instructions.len();
        self.instruction(id, Action::Loop { staged: 0, last: 0 }, &[], &[]);
        self.walk(&condition.order, at)?;
        let decides = condition.results.first().copied().flatten();
        let decides = decides.ok_or_else(|| missing(node))?;
        let staged = self.condition(id, decides)?;
        self.used(decides);
        let guard = Guard {
            staged,
            runs_if: true,
        };
        self.guarded(guard, id, body, &changed, at)?;
        let last = self.instructions.len() as u32 - 1;
        self.instructions[first].action = Action::Loop { staged, last };
        // Loops in it are its own.
        self.commands.loops.retain(|l| l.0 < first as u32);
        self.commands.loops.push((first as u32, last));
        for result in &changed {
            self.buffers[result.buffer].left -= 1;
            self.free_if_unused(result.buffer);
        }
        Ok(())
    }

    /// Lets the host wait for a condition; returns its offset in the staging memory.
    fn condition(&mut self, id: NodeId, output: OutputId) -> Result<usize, SessionError> {
        let graph = self.graph;
        let fact = graph.fact(output).ok_or_else(|| missing(graph.node(id)))?;
        let staged = self.stage_out(id, output, fact)?;
        self.check(id);
        self.instruction(id, Action::Wait, &[], &[]);
        Ok(staged)
    }

    /// Takes memory for an output of a caller, with so many uses more than it has.
    fn result(&mut self, id: NodeId, index: usize, more: u32) -> Result<CallResult, SessionError> {
        let node = self.graph.node(id);
        let output = OutputId {
            node: id,
            index: index as u32,
        };
        let left = self.uses.of(output) + more;
        let bytes = match left {
            0 => 0,
            _ => self.bytes(node, &node.outputs[index])?,
        };
        let (place, buffer) = self.buffer(bytes, left);
        let value = GpuValue {
            place,
            buffer: Some(buffer),
        };
        self.values.insert(output, value);
        Ok(CallResult {
            index,
            place,
            bytes,
            buffer,
        })
    }

    /// Lets a value that a loop does not change be the output of that number.
    fn pass(&mut self, id: NodeId, index: usize, input: OutputId) {
        let output = OutputId {
            node: id,
            index: index as u32,
        };
        if let Some(&value) = self.values.get(&input) {
            self.values.insert(output, value);
            if let Some(buffer) = value.buffer {
                self.buffers[buffer].left += self.uses.of(output);
            }
        } else if self.uses.of(output) > 0
            && let Some(place) = self.place(input)
        {
            let buffer = None;
            self.values.insert(output, GpuValue { place, buffer });
        }
    }

    /// Builds a function that runs under a condition, and copies its results.
    fn guarded(
        &mut self,
        guard: Guard,
        id: NodeId,
        function: &Inlined,
        to: &[CallResult],
        at: &mut usize,
    ) -> Result<(), SessionError> {
        self.open = false;
        self.guards.push(guard);
        self.walk(&function.order, at)?;
        self.give(id, function, to)?;
        self.join(id);
        self.check(id);
        self.guards.pop();
        self.open = false;
        Ok(())
    }

    /// Copies the results of a function to the places of its caller's outputs. One that lies at the place of another is
    /// copied away before that is overwritten.
    fn give(
        &mut self,
        id: NodeId,
        function: &Inlined,
        to: &[CallResult],
    ) -> Result<(), SessionError> {
        let node = self.graph.node(id);
        let mut copies: SmallVec<[(GpuPlace, &CallResult); 2]> = SmallVec::new();
        let mut between: SmallVec<[usize; 2]> = SmallVec::new();
        for result in to {
            let Some(output) = function.results[result.index] else {
                continue;
            };
            let mut from = self.place(output).ok_or_else(|| missing(node))?;
            let overwritten =
                |r: &CallResult| r.place == from && r.index != result.index && r.bytes > 0;
            if result.bytes > 0 && to.iter().any(overwritten) {
                let (place, buffer) = self.buffer(result.bytes, 1);
                let bytes = result.bytes;
                self.push_command(
                    id,
                    GpuCommand::Copy {
                        from,
                        to: place,
                        bytes,
                    },
                );
                between.push(buffer);
                from = place;
            }
            copies.push((from, result));
        }
        for (from, result) in copies {
            self.copied(id, from, result);
        }
        for buffer in between {
            self.buffers[buffer].left = 0;
            self.free_if_unused(buffer);
        }
        for output in function.results.iter().flatten() {
            self.used(*output);
        }
        Ok(())
    }

    fn copied(&mut self, id: NodeId, from: GpuPlace, result: &CallResult) {
        let (to, bytes) = (result.place, result.bytes);
        if bytes > 0 && from != to {
            self.push_command(id, GpuCommand::Copy { from, to, bytes });
        }
    }
}
