//! Cuts a step into a part for each task.

use std::sync::Arc;

use thalweg_device::Variable;
use thalweg_graph::partition::{Channel, Crossing, partition};
use thalweg_graph::{DeviceSpec, Fact, GraphData, NodeId, OpDef, OutputId, Placement};
use thalweg_tensor::{DType, Dims};

use crate::compile::{ordered, simplified, with_client_channels};
use crate::error::SessionError;
use crate::machine::Machine;
use crate::options::PlanOptions;
use crate::placements::Placements;
use crate::request::{Fetch, PlanContext, Request, check_request, partial_feed_facts};
use crate::store::SessionState;
use crate::task_part::{TaskChannel, TaskPart, TaskPartition};
use crate::wire_dtype::Edge;

/// Cuts steps of one graph, which only grows, over the devices of several tasks.
pub struct TaskPartitioner {
    machine: Machine,
    options: PlanOptions,
    places: Placements,
    session: SessionState,
    /// By device: its task.
    tasks: Vec<u32>,
}

impl TaskPartitioner {
    /// For the devices of a cluster, each with the number of its task. Constants are folded on
    /// `machine`.
    pub fn new(
        machine: Machine,
        options: PlanOptions,
        devices: Vec<(DeviceSpec, u32)>,
    ) -> TaskPartitioner {
        let (names, tasks) = devices.into_iter().unzip();
        TaskPartitioner {
            machine,
            options,
            places: Placements::new(names),
            session: SessionState::default(),
            tasks,
        }
    }

    /// The same with more devices, after those that there are; nodes that were placed stay where they are.
    pub fn with(&self, more: Vec<(DeviceSpec, u32)>) -> TaskPartitioner {
        let (names, tasks): (Vec<_>, Vec<_>) = more.into_iter().unzip();
        TaskPartitioner {
            machine: self.machine.clone(),
            options: self.options.clone(),
            places: self.places.with(names),
            session: SessionState::default(),
            tasks: self.tasks.iter().copied().chain(tasks).collect(),
        }
    }

    /// Returns the names of the devices, by number.
    pub fn devices(&self) -> &[DeviceSpec] {
        self.places.names()
    }

    /// Checks that the nodes of the graph can be placed.
    ///
    /// # Errors
    /// [`SessionError::Place`], [`SessionError::Gpu`].
    pub fn placed(&self, data: &GraphData) -> Result<Arc<Placement>, SessionError> {
        let kernels = &self.machine.kernels;
        self.places.of(data, kernels, &self.options)
    }

    /// Returns the parts of the step that computes `fetches` when `feeds` have these dtypes and dimensions.
    ///
    /// # Errors
    /// As those of a session's first step.
    pub fn cut(
        &self,
        data: &GraphData,
        fetches: &[Fetch],
        feeds: &[(OutputId, DType, Dims)],
    ) -> Result<TaskPartition, SessionError> {
        let given = feeds
            .iter()
            .map(|(output, dtype, dims)| (*output, *dtype, &dims[..]));
        let feeds = check_request(data, fetches, given)?;
        self.parts(data, fetches, &feeds, false)
    }

    /// Returns the parts of a step whose feeds come one after the other while it runs, and whose fetches go as soon as
    /// they are there: through channels of the first task's part, numbered by [`crate::client_channel`], first those of
    /// the feeds, then those of the fetched outputs.
    ///
    /// # Errors
    /// As [`TaskPartitioner::cut`].
    pub fn cut_partial(
        &self,
        data: &GraphData,
        fetches: &[Fetch],
        feeds: &[OutputId],
    ) -> Result<TaskPartition, SessionError> {
        let feeds = partial_feed_facts(data, feeds)?;
        check_request(data, fetches, std::iter::empty())?;
        self.parts(data, fetches, &feeds, true)
    }

    /// Returns the number of a task's first device.
    fn home(&self, task: u32) -> u32 {
        let first = self.tasks.iter().position(|&t| t == task);
        first.unwrap_or(0) as u32
    }

    /// Returns the wire dtype of an edge between tasks, where it is not the value's own.
    fn narrowed(
        &self,
        edge: Crossing<'_>,
        cast: &'static OpDef,
    ) -> Option<(DType, &'static OpDef)> {
        let wire = self.options.wire.as_ref()?;
        let fact = edge.node.outputs.get(edge.output as usize)?;
        // The parts' numbers are those of tasks.
        let name = |task: u32| self.places.names().get(self.home(task) as usize);
        let asked = wire.of(&Edge {
            node: &edge.node.name,
            output: edge.output,
            from: name(edge.from)?,
            to: name(edge.to)?,
        });
        let dtype = asked.dtype();
        (fact.dtype == DType::F32 && dtype != DType::F32).then_some((dtype, cast))
    }

    fn parts(
        &self,
        data: &GraphData,
        fetches: &[Fetch],
        feeds: &[(OutputId, Fact)],
        pieces: bool,
    ) -> Result<TaskPartition, SessionError> {
        let kernels = &self.machine.kernels;
        let placement = self.places.of(data, kernels, &self.options)?;
        let context = PlanContext {
            separate_memory: pieces,
            ..self.machine.context(&self.session, &self.options)
        };
        let request = Request {
            feeds,
            fetches,
            devices: placement.numbers(),
            variables: &[],
        };
        let mut whole = simplified(data, &request, context)?;
        // Values that a client gives or takes while the step runs are sent as they are.
        let mut clients: Vec<(String, u32)> = Vec::new();
        if pieces {
            let named = |o: OutputId| (whole.graph.node(o.node).name.clone(), o.index);
            let fed = whole.feeds.iter().flatten();
            let fed = fed.map(|&node| OutputId { node, index: 0 });
            clients.extend(fed.chain(whole.fetches.iter().copied()).map(named));
            whole = with_client_channels(whole, Some(self.home(0)));
        }
        // The variables are on other tasks: here they have names alone.
        let named = |(_, _, name): (u32, &str, &str), dtype, shape: &_, _: bool| {
            Ok(Arc::new(Variable::new(name, dtype, Clone::clone(shape))))
        };
        let order = ordered(&whole, &named, context)?;
        let task = |device: u32| self.tasks.get(device as usize).copied().unwrap_or(0);
        let tasks: Vec<u32> = whole.devices.iter().map(|&d| task(d)).collect();
        let old: Vec<NodeId> = whole.graph.ids().collect();
        let cast = thalweg_ops::ops().find(|op| op.def.name == "Cast");
        let narrow = |edge: Crossing<'_>| {
            let mut clients = clients.iter();
            let client = clients.any(|(n, i)| *n == edge.node.name && *i == edge.output);
            self.narrowed(edge, &cast?.def).filter(|_| !client)
        };
        let mut cut = partition(whole.graph, &order, &tasks, true, &narrow);
        let parts = std::mem::take(&mut cut.parts);
        let mut parts: Vec<TaskPart> = parts
            .into_iter()
            .map(|part| TaskPart {
                task: part.device,
                // Added nodes are placed on the task's first device.
                devices: vec![self.home(part.device); part.graph.len()],
                graph: part.graph,
                feeds: Vec::new(),
                fetches: Vec::new(),
                separate_memory: pieces,
            })
            .collect();
        for node in old {
            if let Some((part, here)) = cut.node(node) {
                parts[part as usize].devices[here.index()] = whole.devices[node.index()];
            }
        }
        for (number, feed) in whole.feeds.iter().enumerate() {
            for &(part, here) in feed.map_or(&[][..], |f| cut.feed(f)) {
                parts[part as usize].feeds.push((number, here));
            }
        }
        let mut values = whole.fetches.iter();
        for (number, fetch) in fetches.iter().enumerate() {
            if let Fetch::Value(_) = fetch
                && let Some(output) = values.next()
                && let Some((part, node)) = cut.node(output.node)
            {
                let here = OutputId { node, ..*output };
                parts[part as usize].fetches.push((number, here));
            }
        }
        let numbers: Vec<u32> = parts.iter().map(|p| p.task).collect();
        let channel = |c: &Channel| TaskChannel {
            from: numbers[c.from as usize],
            to: numbers[c.to as usize],
        };
        Ok(TaskPartition {
            channels: cut.channels.iter().map(channel).collect(),
            parts,
        })
    }
}

#[cfg(test)]
mod tests;
