//! Multi-tensor launches: small nodes of one function wait for each other, and are launched together.
//!
//! Casts of weights and gradients and updates of variables take less time on a GPU than their launches. Such a node waits until
//! another node needs it, or the step ends. All waiting nodes of its function are launched with it.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};
use thalweg_device::gpu::{Arg, Function, Launches, THREADS};
use thalweg_device::{Body, Variable};
use thalweg_graph::op::Effect;
use thalweg_graph::{Fact, Node, NodeId, OutputId};
use thalweg_tensor::{DType, Shape};

use super::launch::ArgumentPlaces;
use super::waiting::{Turn, WaitingNode};
use super::{GpuBuilder, GpuValue};
use crate::error::{SessionError, failed};
use crate::gpu_program::{Argument, GpuCommand, GpuPlace, MemberTable, NodeCommand};

/// Maximum number of members: threads of a block look for theirs.
const MAX_MEMBERS: usize = THREADS as usize;

/// Maximum number of nodes that wait: every other node is compared with them.
const MAX_WAITING: usize = 4 * MAX_MEMBERS;

/// The most that [`GpuBuilder::max_held_bytes`] returns.
const MAX_HELD_BYTES: usize = 256 << 20;

/// `true` if the launches of a node may be one of a multi-tensor launch.
fn is_member(launches: &Launches) -> bool {
    let [launch] = &launches.list[..] else {
        return false;
    };
    let word = |arg: &Arg| match arg {
        Arg::Input(_) | Arg::Output(_) | Arg::Variable(_) => true,
        Arg::Value(bytes) => bytes.len() <= 8,
        _ => false,
    };
    let alone = launches.fault.is_none() && launches.collective.is_none() && !launches.assigns;
    launch.multi_tensor && alone && launch.threads == THREADS && launch.args.iter().all(word)
}

impl GpuBuilder<'_> {
    /// Returns the same order with the casts of variables first, so that they can be launched together. Those of variables that
    /// are updated before stay where they are.
    pub(super) fn casts_first(&self, order: &[NodeId]) -> Vec<NodeId> {
        if !self.context.fuse {
            return order.to_vec();
        }
        let mut early: FxHashSet<NodeId> = FxHashSet::default();
        let mut updated: FxHashSet<usize> = FxHashSet::default();
        let mut held = 0usize;
        for &id in order {
            updated.extend(&self.accesses.updates[id.index()]);
            let node = self.graph.node(id);
            let first = node.inputs.first();
            let after_early =
                first.is_some_and(|o| node.inputs.len() == 1 && early.contains(&o.node));
            let body = self.kernel(node).map(|k| &k.body);
            let is_early = match body {
                Some(Body::Handle) => node.inputs.is_empty(),
                // Other ops that read a variable need the host.
                Some(Body::Read) => {
                    let variable = first.and_then(|o| self.bindings.variable_of.get(o));
                    after_early && variable.is_some_and(|v| !updated.contains(v))
                }
                Some(Body::Launch(launches)) if node.op.name == "Cast" && after_early => {
                    let bytes: usize = node.outputs.iter().map(fact_bytes).sum();
                    let work = self.work(node, *launches);
                    let is_member = work.is_ok_and(|w| is_member(&w.launches));
                    let fits = is_member && held + bytes <= self.max_held_bytes();
                    held += if fits { bytes } else { 0 };
                    fits
                }
                _ => false,
            };
            if is_early && node.controls.is_empty() {
                early.insert(id);
            }
        }
        let (first, rest): (Vec<_>, Vec<_>) = order.iter().partition(|id| early.contains(id));
        [first, rest].concat()
    }

    /// Lets a node wait if it may be a member of a multi-tensor launch. Launches the waiting nodes that it depends on otherwise.
    pub(super) fn turn(&mut self, id: NodeId, node: &Node) -> Result<Turn, SessionError> {
        let work = match self.kernel(node).map(|k| &k.body) {
            Some(Body::Launch(launches)) => Some(self.work(node, *launches)?),
            _ => None,
        };
        let after = self.waiting_before(id, node);
        match work {
            Some(work) if self.may_wait(node) && is_member(&work.launches) => {
                let held = |o: &&OutputId| self.values.get(o).is_some_and(|v| v.buffer.is_some());
                let held = node.inputs.iter().filter(held);
                let bytes = held
                    .filter_map(|&o| self.graph.fact(o))
                    .map(fact_bytes)
                    .sum();
                self.waiting.push(WaitingNode {
                    id,
                    work,
                    after,
                    bytes,
                });
                let all: usize = self.waiting.iter().map(|w| w.bytes).sum();
                if all > self.max_held_bytes() || self.waiting.len() >= MAX_WAITING {
                    self.launch_all_waiting(id)?;
                }
                Ok(Turn::Later)
            }
            work => {
                self.launch_waiting(id, &after)?;
                Ok(Turn::Now(work))
            }
        }
    }

    /// Maximum bytes of values that are kept for nodes that wait, and of casts that come first: a part of the memory of a small GPU.
    fn max_held_bytes(&self) -> usize {
        let limit = self.gpu.memory().limit();
        limit.map_or(MAX_HELD_BYTES, |l| (l / 16).min(MAX_HELD_BYTES))
    }

    /// `true` for a node outside of branches and loops that only computes its outputs or only updates variables.
    fn may_wait(&self, node: &Node) -> bool {
        let plain = match node.op.effect {
            Effect::Pure => true,
            Effect::Write => node.outputs.is_empty(),
            _ => false,
        };
        let outside = self.caller.is_none() && self.guards.is_empty();
        plain && outside && self.context.fuse
    }

    /// Returns the waiting nodes that a node comes after.
    pub(super) fn waiting_before(&self, id: NodeId, node: &Node) -> SmallVec<[NodeId; 2]> {
        let (uses, updates) = (&self.accesses.uses, &self.accesses.updates);
        let has_any = |of: &[usize], any: &[usize]| of.iter().any(|v| any.contains(v));
        let handles = node.inputs.iter();
        let handles = handles.filter_map(|i| self.bindings.variable_of.get(i).copied());
        let touched: SmallVec<[usize; 4]> =
            handles.chain(uses[id.index()].iter().copied()).collect();
        let own = updates[id.index()].iter();
        let own: SmallVec<[&Arc<Variable>; 2]> =
            own.map(|&v| &self.bindings.variables[v]).collect();
        // A loop may keep a value that was read, which lies in the variable.
        let is_overwritten = |input: &OutputId| match self.values.get(input).map(|v| v.place) {
            Some(GpuPlace::Variable(n)) => own
                .iter()
                .any(|v| Arc::ptr_eq(v, &self.commands.variables[n])),
            _ => false,
        };
        let comes_after = |w: &&WaitingNode| {
            let at = w.id.index();
            node.inputs.iter().any(|i| i.node == w.id)
                || node.controls.contains(&w.id)
                || has_any(&updates[at], &touched)
                || has_any(&updates[id.index()], &updates[at])
                || has_any(&updates[id.index()], &uses[at])
                || self.graph.node(w.id).inputs.iter().any(is_overwritten)
        };
        let waiting = self.waiting.iter().filter(comes_after);
        waiting.map(|w| w.id).collect()
    }

    /// Launches all waiting nodes, before node `now`.
    pub(super) fn launch_all_waiting(&mut self, now: NodeId) -> Result<(), SessionError> {
        let all: Vec<NodeId> = self.waiting.iter().map(|w| w.id).collect();
        self.launch_waiting(now, &all)
    }

    /// Launches waiting nodes before node `now`: these, those that they depend on, and others of their functions.
    pub(super) fn launch_waiting(
        &mut self,
        now: NodeId,
        wanted: &[NodeId],
    ) -> Result<(), SessionError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let mut chosen: FxHashSet<NodeId> = wanted.iter().copied().collect();
        for w in self.waiting.iter().rev().filter(|w| !w.after.is_empty()) {
            if chosen.contains(&w.id) {
                chosen.extend(&w.after);
            }
        }
        let functions: FxHashSet<&Function> = (self.waiting.iter())
            .filter(|w| chosen.contains(&w.id))
            .map(|w| &w.launch().function)
            .collect();
        let joins =
            |w: &&WaitingNode| w.after.is_empty() && functions.contains(&w.launch().function);
        chosen.extend(self.waiting.iter().filter(joins).map(|w| w.id));
        let waiting = std::mem::take(&mut self.waiting);
        let (mut ready, kept): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|w| chosen.contains(&w.id));
        self.waiting = kept;
        self.waiting
            .iter_mut()
            .for_each(|w| w.after.retain(|a| !chosen.contains(a)));
        // One level after the other: nodes that depend on none of the rest.
        while !ready.is_empty() {
            let rest: FxHashSet<NodeId> = ready.iter().map(|w| w.id).collect();
            let (mut level, later): (Vec<_>, Vec<_>) = ready
                .into_iter()
                .partition(|w| !w.after.iter().any(|a| rest.contains(a)));
            ready = later;
            while let Some(first) = level.first() {
                let function = first.launch().function.clone();
                let (members, others): (Vec<_>, Vec<_>) = level
                    .into_iter()
                    .partition(|w| w.launch().function == function);
                level = others;
                for members in members.chunks(MAX_MEMBERS) {
                    self.launch_members(now, &function, members)?;
                }
            }
        }
        Ok(())
    }

    /// Launches nodes of one function together.
    fn launch_members(
        &mut self,
        now: NodeId,
        function: &Function,
        members: &[WaitingNode],
    ) -> Result<(), SessionError> {
        let graph = self.graph;
        // Instructions have the order of the nodes at which they are added.
        self.segment(now);
        for member in members {
            self.join_for(member.id, graph.node(member.id));
        }
        let first = graph.node(members[0].id);
        if first.op.effect == Effect::Write {
            // A step with a rejected element must not change a variable.
            self.check(now);
        }
        self.segment(now);
        if let [member] = members {
            let kernel = self.kernel(first);
            return kernel.map_or(Ok(()), |k| self.launch(member.id, first, k, &member.work));
        }
        let mut starts = vec![0];
        let mut arguments = Vec::with_capacity(members.len());
        for member in members {
            arguments.push(self.member_arguments(member)?);
            starts.push(starts[starts.len() - 1] + member.launch().blocks);
        }
        let blocks = starts[members.len()];
        let words = starts.len() + arguments.iter().map(SmallVec::len).sum::<usize>();
        self.bytes(first, &Fact::new(DType::U64, Shape::known(&[words])))?;
        let offset = self.commands.fixed;
        let table = self.fixed(words * size_of::<u64>());
        self.commands.tables.push(MemberTable {
            offset,
            starts,
            arguments,
        });
        let function = Function {
            multi_tensor: true,
            ..function.clone()
        };
        let function = self.gpu.load(&function);
        let count = (members.len() as u32).to_ne_bytes();
        let command = NodeCommand {
            node: members[0].id,
            others: members[1..].iter().map(|m| m.id).collect(),
            command: GpuCommand::Launch {
                function: function.map_err(|e| failed(first, e.into()))?,
                blocks,
                threads: THREADS,
                arguments: smallvec![
                    Argument::Address(table),
                    Argument::Value(SmallVec::from_slice(&count)),
                ],
            },
        };
        self.segment(now).commands.push(command);
        // Memory is given back behind the launch: an output of a member does not lie where another's input does.
        for member in members {
            self.launched(member.id);
        }
        Ok(())
    }

    /// Takes memory for the outputs of a member, and returns its arguments.
    fn member_arguments(
        &mut self,
        member: &WaitingNode,
    ) -> Result<SmallVec<[Argument; 8]>, SessionError> {
        let (id, node) = (member.id, self.graph.node(member.id));
        let mut outputs: SmallVec<[GpuPlace; 2]> = SmallVec::new();
        for (index, fact) in (0..).zip(&node.outputs) {
            let output = OutputId { node: id, index };
            let bytes = self.bytes(node, fact)?;
            let (place, buffer) = self.buffer(bytes, self.uses.of(output));
            let buffer = Some(buffer);
            self.values.insert(output, GpuValue { place, buffer });
            outputs.push(place);
        }
        let variables = self.variables(id, node, false)?;
        let places = ArgumentPlaces {
            outputs: &outputs,
            variables: &variables,
            scratch: 0,
            counter: None,
            status: None,
        };
        self.arguments(node, member.launch(), &places)
    }
}

/// Bytes of a value of known shape.
fn fact_bytes(fact: &Fact) -> usize {
    let elements = fact.shape.elements().unwrap_or(0);
    elements.saturating_mul(fact.dtype.size())
}
