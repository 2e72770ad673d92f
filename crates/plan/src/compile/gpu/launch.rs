//! Translates a kernel's launches to commands of the queue.

use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::SmallVec;
use thalweg_device::gpu::{
    ALIGNMENT, Arg, Launch, Launches, LibraryStep, ReadyCall, WithLibraries,
};
use thalweg_device::{Kernel, KernelError, Operand, Prepare};
use thalweg_graph::op::Effect;
use thalweg_graph::{Fact, Node, NodeId, OutputId};
use thalweg_tensor::{DType, Shape};

use super::waiting::Work;
use super::{Buffer, GpuBuilder, GpuValue};
use crate::error::SessionError;
use crate::error::failed;
use crate::error::panicked;
use crate::gpu_program::{
    Argument, Check, ComputedBy, GpuCommand, GpuPlace, NodeCommand, STATUS_BYTES, Watched,
};
use crate::memory::LastUse;
use crate::program::Action;

/// The places of the arguments of a node's launches.
pub(super) struct ArgumentPlaces<'n> {
    pub(super) outputs: &'n [GpuPlace],
    pub(super) variables: &'n [Option<GpuPlace>],
    /// An offset of the arena.
    pub(super) scratch: usize,
    pub(super) counter: Option<GpuPlace>,
    pub(super) status: Option<GpuPlace>,
}

impl GpuBuilder<'_> {
    /// Asks the kernel of a node for its launches.
    pub(super) fn work(
        &self,
        node: &Node,
        launches: thalweg_device::kernel::LaunchFn,
    ) -> Result<Work, SessionError> {
        let graph = self.graph;
        // A handle has the dimensions of its variable.
        let operand = |f: &Fact| Operand {
            dtype: f.dtype,
            dims: match &f.variable {
                Some((_, shape)) => shape.to_dims().unwrap_or_default(),
                None => f.shape.to_dims().unwrap_or_default(),
            },
            value: f.value.clone(),
        };
        let inputs = node.inputs.iter().filter_map(|&o| graph.fact(o));
        let inputs: SmallVec<[Operand; 4]> = inputs.map(operand).collect();
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
        Ok(Work {
            launches,
            inputs,
            outputs,
        })
    }

    /// Adds the launches of a node.
    pub(super) fn launch(
        &mut self,
        id: NodeId,
        node: &Node,
        kernel: &'static Kernel,
        work: &Work,
    ) -> Result<(), SessionError> {
        let (inputs, outputs) = (&work.inputs, &work.outputs);
        let mut to: SmallVec<[GpuPlace; 2]> = SmallVec::new();
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
                // An input of a list may not be there.
                let input = inputs.get(*i)?;
                let same =
                    input.dtype == fact.dtype && input.elements() == outputs[index].elements();
                self.ends_here(node, *i).filter(|_| same)
            });
            let ending = candidates.find(|(buffer, _)| !replaced.contains(buffer));
            let (place, buffer) = match ending {
                Some((buffer, place)) => {
                    replaced.push(buffer);
                    let block = self.buffers[buffer].block.take();
                    self.buffers.push(Buffer { block, left });
                    (place, self.buffers.len() - 1)
                }
                None => self.buffer(bytes, left),
            };
            let buffer = Some(buffer);
            self.values.insert(output, GpuValue { place, buffer });
            to.push(place);
        }
        self.launches(id, node, &work.launches, &to)?;
        if let Some(collective) = work.launches.collective {
            self.collective(id, node, collective, inputs, to[0])?;
        }
        self.launched(id);
        Ok(())
    }

    /// Records that the outputs of a node are there, and counts its uses of its inputs.
    pub(super) fn launched(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let output = |index| OutputId { node: id, index };
        for (index, fact) in (0..).zip(&node.outputs) {
            self.made(output(index), self.values[&output(index)].place, fact);
        }
        for &input in &node.inputs {
            self.used(input);
        }
        for index in 0..node.outputs.len() as u32 {
            if let Some(buffer) = self.values[&output(index)].buffer {
                self.free_if_unused(buffer);
            }
        }
    }

    /// Returns the buffer of an input that is used here for the last time, and nowhere else in this node.
    fn ends_here(&self, node: &Node, input: usize) -> Option<(usize, GpuPlace)> {
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
        outputs: &[GpuPlace],
    ) -> Result<(), SessionError> {
        let ready = self.ready_calls(id, launches);
        let (own, workspace) = match &ready {
            Some((with, calls)) => {
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
                let block = self.arena.allocate(bytes, 0, &mut Vec::new());
                // It lives for these launches, which take nothing else.
                self.arena.free(block, LastUse::default());
                block.offset
            }
        };
        let status = launches.fault.clone().map(|fault| {
            self.commands.watched.push(Watched { node: id, fault });
            GpuPlace::Status(self.commands.watched.len() - 1)
        });
        let counter = match node.op.effect {
            Effect::Random => Some(self.counter(node)?),
            _ => None,
        };
        let variables = self.variables(id, node, launches.assigns)?;
        let places = ArgumentPlaces {
            outputs,
            variables: &variables,
            scratch,
            counter,
            status,
        };
        let Some((with, calls)) = ready else {
            let mut list = launches.list.iter();
            return list.try_for_each(|l| self.one_launch(id, node, l, &places));
        };
        let mut calls = calls.into_iter();
        for step in &with.steps {
            match step {
                LibraryStep::Launch(launch) => self.one_launch(id, node, launch, &places)?,
                LibraryStep::Call(_, args) => {
                    let missing = || failed(node, KernelError::Argument("an address"));
                    let call = calls.next().ok_or_else(missing)?.handle;
                    let mut at = [GpuPlace::Arena(0); 3];
                    for (at, arg) in at.iter_mut().zip(args) {
                        *at = self.argument(node, arg, &places).ok_or_else(missing)?;
                    }
                    let workspace = GpuPlace::Arena(scratch + own);
                    let command = GpuCommand::Call {
                        call,
                        places: at,
                        workspace,
                    };
                    self.push_command(id, command);
                }
            }
        }
        Ok(())
    }

    /// Returns the first of a kernel's library alternatives whose calls can all be prepared. Records the
    /// implementation, and the reason that it is not a library, for dumps of the plan.
    fn ready_calls<'l>(
        &mut self,
        id: NodeId,
        launches: &'l Launches,
    ) -> Option<(&'l WithLibraries, Vec<ReadyCall>)> {
        let mut refused = None;
        for with in &launches.with_libraries {
            let calls = with.steps.iter().filter_map(|step| match step {
                LibraryStep::Call(call, _) => Some(call),
                LibraryStep::Launch(_) => None,
            });
            let ready: Result<Vec<ReadyCall>, String> =
                calls.map(|call| self.gpu.prepare(call)).collect();
            match ready {
                Ok(ready) => {
                    let engine = ready.iter().find_map(|call| call.engine);
                    let by = ComputedBy::Library(engine);
                    self.commands.computed_by.insert(id, by);
                    return Some((with, ready));
                }
                Err(why) => refused = Some(why),
            }
        }
        if let Some(why) = refused {
            self.commands
                .computed_by
                .insert(id, ComputedBy::OwnKernel(why));
        }
        None
    }

    /// Returns the place of an argument that is an address.
    fn argument(
        &mut self,
        node: &Node,
        arg: &Arg,
        places: &ArgumentPlaces<'_>,
    ) -> Option<GpuPlace> {
        match arg {
            Arg::Input(i) => node.inputs.get(*i).and_then(|&o| self.place(o)),
            Arg::Output(i) => places.outputs.get(*i).copied(),
            Arg::Variable(i) => places.variables.get(*i).copied().flatten(),
            Arg::Scratch(at) => Some(GpuPlace::Arena(places.scratch + at)),
            Arg::Counter => places.counter,
            Arg::Status => places.status,
            Arg::Table(_) | Arg::Value(_) => None,
        }
    }

    /// Returns the places of the variables behind the inputs of a node, and records its accesses.
    pub(super) fn variables(
        &mut self,
        id: NodeId,
        node: &Node,
        assigns: bool,
    ) -> Result<SmallVec<[Option<GpuPlace>; 4]>, SessionError> {
        self.check_handles(node).map_err(|e| failed(node, e))?;
        let mut variables = SmallVec::new();
        for input in &node.inputs {
            let variable = self.bindings.variable_of.get(input).copied();
            variables.push(variable.map(|v| self.variable(id, v, assigns)));
        }
        Ok(variables)
    }

    /// Returns the arguments of a launch.
    pub(super) fn arguments(
        &mut self,
        node: &Node,
        launch: &Launch,
        places: &ArgumentPlaces<'_>,
    ) -> Result<SmallVec<[Argument; 8]>, SessionError> {
        let mut arguments = SmallVec::new();
        for arg in &launch.args {
            arguments.push(match arg {
                Arg::Value(bytes) => Argument::Value(bytes.clone()),
                Arg::Table(words) => Argument::Address(self.table(node, words)?),
                arg => {
                    let place = self.argument(node, arg, places);
                    let missing = || failed(node, KernelError::Argument("an address"));
                    Argument::Address(place.ok_or_else(missing)?)
                }
            });
        }
        Ok(arguments)
    }

    fn one_launch(
        &mut self,
        id: NodeId,
        node: &Node,
        launch: &Launch,
        places: &ArgumentPlaces<'_>,
    ) -> Result<(), SessionError> {
        let arguments = self.arguments(node, launch, places)?;
        let function = self
            .gpu
            .load(&launch.function)
            .map_err(|e| failed(node, e.into()))?;
        let command = GpuCommand::Launch {
            function,
            blocks: launch.blocks,
            threads: launch.threads,
            arguments,
        };
        self.push_command(id, command);
        Ok(())
    }

    /// Lets the host check the statuses that it has not checked yet.
    pub(super) fn check(&mut self, node: NodeId) {
        let first = self.commands.checks.last().map_or(0, |c| c.last);
        let last = self.commands.watched.len();
        if first == last {
            return;
        }
        let bytes = (last - first) * STATUS_BYTES;
        let staged = self.staged(bytes);
        let (from, to) = (GpuPlace::Status(first), staged);
        self.push_command(node, GpuCommand::CopyOut { from, to, bytes });
        let number = self.commands.checks.len();
        self.commands.checks.push(Check {
            first,
            last,
            staged,
        });
        self.instruction(node, Action::Check(number), &[], &[]);
    }

    /// Resets the statuses at the start of a step.
    pub(super) fn clear_statuses(&mut self, first: NodeId) {
        let bytes = self.commands.watched.len() * STATUS_BYTES;
        if bytes > 0 {
            let to = GpuPlace::Status(0);
            let command = GpuCommand::Ones { to, bytes };
            let ones = NodeCommand::of(first, command);
            let segment = &mut self.commands.segments[0];
            segment.commands.insert(0, ones);
            segment.made.iter_mut().for_each(|m| m.after += 1);
        }
    }
}
