//! Template of a step: the parts of one worker's step as items, which a simulation repeats for each worker.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use thalweg_graph::op::Effect;
use thalweg_graph::{Fact, NodeId, OutputId};
use thalweg_plan::{TaskPart, TaskPartition};

use super::node_cost::{NodeCost, fact_bytes};
use crate::cluster::DeviceSpeed;

/// Task of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplateTask {
    /// The worker whose step it is.
    Worker,
    /// A parameter server, by its index.
    Server(u32),
}

/// Device of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// The processor of the host: it runs what is ready.
    Host,
    /// A device that computes the model: it runs nodes in the order of the plan.
    Device(u32),
}

/// Work of an item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ItemWork {
    /// Kernels on a device.
    Compute(Stream, NodeCost),
    /// Copy of so many bytes between the host and a device of a task.
    Copy(f64),
    /// Message of so many bytes to another task.
    Message(TemplateTask, f64),
}

/// Item of a step.
#[derive(Clone, Debug)]
pub struct Item {
    /// Task that does it; of a message, the sender.
    pub task: TemplateTask,
    /// Work.
    pub work: ItemWork,
    /// Numbers of the items before it, all smaller than its own.
    pub after: Vec<usize>,
    /// `true` if it waits, perhaps through others, for a message of the worker to a server.
    pub follows_worker: bool,
}

/// Items of the step of one worker, each after those that it waits for.
#[derive(Clone, Debug)]
pub struct StepTemplate {
    /// Items.
    pub items: Vec<Item>,
    /// Number of devices of the worker that compute the model.
    pub devices: u32,
    /// Number of servers.
    pub servers: u32,
}

/// Device of a task in a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct DevicePlace {
    pub task: TemplateTask,
    pub stream: Stream,
}

impl StepTemplate {
    /// Template of a partition. `places` has the place of each device of the cluster, and `tasks` the task of each number.
    pub(super) fn of(
        cut: &TaskPartition,
        places: &[DevicePlace],
        tasks: &[TemplateTask],
    ) -> StepTemplate {
        let mut builder = TemplateBuilder {
            places,
            items: Vec::new(),
        };
        // The messages come first, by number of their channel.
        for channel in &cut.channels {
            let to = tasks[channel.to as usize];
            builder.push(
                tasks[channel.from as usize],
                ItemWork::Message(to, 0.0),
                Vec::new(),
            );
        }
        for part in &cut.parts {
            PartBuilder::new(&mut builder, tasks[part.task as usize], part).build();
        }
        let devices = places.iter().filter(|p| p.task == TemplateTask::Worker);
        let devices = devices
            .filter(|p| matches!(p.stream, Stream::Device(_)))
            .count();
        let servers = tasks.iter().filter(|t| **t != TemplateTask::Worker).count();
        StepTemplate {
            items: sorted(builder.items),
            devices: devices as u32,
            servers: servers as u32,
        }
    }

    /// Messages: the sender, the receiver, the bytes.
    pub fn messages(&self) -> impl Iterator<Item = (TemplateTask, TemplateTask, f64)> + '_ {
        self.items.iter().filter_map(|item| match item.work {
            ItemWork::Message(to, bytes) => Some((item.task, to, bytes)),
            _ => None,
        })
    }

    /// Bytes that the worker sends to servers and receives from them in a step.
    pub fn worker_bytes(&self) -> (f64, f64) {
        let sum = |sends: bool| -> f64 {
            let own = self.messages().filter(|(from, to, _)| {
                let end = if sends { from } else { to };
                *end == TemplateTask::Worker
            });
            own.map(|(.., bytes)| bytes).sum()
        };
        (sum(true), sum(false))
    }

    /// Seconds of a step that only computes.
    pub fn computing_seconds(&self, device: &DeviceSpeed) -> f64 {
        self.device_cost().seconds(device) / f64::from(self.devices.max(1))
    }

    /// Work of all devices of the worker.
    pub fn device_cost(&self) -> NodeCost {
        let mut sum = NodeCost::default();
        for item in &self.items {
            if let ItemWork::Compute(Stream::Device(_), cost) = item.work {
                sum += cost;
            }
        }
        sum
    }
}

struct TemplateBuilder<'a> {
    places: &'a [DevicePlace],
    items: Vec<Item>,
}

impl TemplateBuilder<'_> {
    fn push(&mut self, task: TemplateTask, work: ItemWork, after: Vec<usize>) -> usize {
        self.items.push(Item {
            task,
            work,
            after,
            follows_worker: false,
        });
        self.items.len() - 1
    }
}

/// State of a device that runs nodes in order.
#[derive(Default)]
struct DeviceOrder {
    /// Item that further nodes join.
    open: Option<usize>,
    /// Last item.
    last: Option<usize>,
    /// Items of the device, and those that it has waited for.
    passed: BTreeSet<usize>,
}

/// Builder of the items of one task.
struct PartBuilder<'a, 'b> {
    all: &'a mut TemplateBuilder<'b>,
    task: TemplateTask,
    part: &'a TaskPart,
    orders: BTreeMap<Stream, DeviceOrder>,
    /// By node: the items after which it is done.
    done: Vec<Vec<usize>>,
    /// By output and stream: the item that copies it there.
    copies: BTreeMap<(u32, u32, Stream), usize>,
}

impl<'a, 'b> PartBuilder<'a, 'b> {
    fn new(all: &'a mut TemplateBuilder<'b>, task: TemplateTask, part: &'a TaskPart) -> Self {
        PartBuilder {
            all,
            task,
            part,
            orders: BTreeMap::new(),
            done: Vec::with_capacity(part.graph.len()),
            copies: BTreeMap::new(),
        }
    }

    fn stream(&self, node: NodeId) -> Stream {
        let device = self.part.devices[node.index()] as usize;
        self.all
            .places
            .get(device)
            .map_or(Stream::Host, |p| p.stream)
    }

    fn build(mut self) {
        let graph = &self.part.graph;
        for (id, node) in graph.nodes() {
            let stream = self.stream(id);
            let mut after = BTreeSet::new();
            for &input in &node.inputs {
                after.extend(self.value(input, stream));
            }
            for control in &node.controls {
                after.extend(&self.done[control.index()]);
            }
            let done = match node.op.effect {
                Effect::Recv => vec![channel(node.attrs.int("channel"))],
                Effect::Send => {
                    let fact = node.inputs.first().and_then(|&o| graph.fact(o));
                    self.send(channel(node.attrs.int("channel")), fact, after);
                    Vec::new()
                }
                _ => {
                    let cost = NodeCost::of(graph, node);
                    if cost == NodeCost::default() {
                        after.into_iter().collect()
                    } else {
                        vec![self.compute(stream, cost, after)]
                    }
                }
            };
            self.done.push(done);
        }
    }

    fn send(&mut self, channel: usize, fact: Option<&Fact>, after: BTreeSet<usize>) {
        self.close(&after, None);
        let item = &mut self.all.items[channel];
        if let ItemWork::Message(_, bytes) = &mut item.work {
            *bytes = fact.map_or(0.0, fact_bytes);
        }
        item.after = after.into_iter().collect();
    }

    /// Items after which a value is at a stream: copies between the host and its devices take time.
    fn value(&mut self, output: OutputId, to: Stream) -> Vec<usize> {
        let from = self.stream(output.node);
        let done = self.done[output.node.index()].clone();
        let bytes = self.part.graph.fact(output).map_or(0.0, fact_bytes);
        if from == to || bytes == 0.0 || done.is_empty() {
            return done;
        }
        let key = (output.node.index() as u32, output.index, to);
        if let Some(&copy) = self.copies.get(&key) {
            return vec![copy];
        }
        self.close(&done.iter().copied().collect(), Some(to));
        let copy = self.all.push(self.task, ItemWork::Copy(bytes), done);
        self.copies.insert(key, copy);
        vec![copy]
    }

    /// Closes items that others wait for, so that no later node joins them; `except` is the device that waits itself.
    fn close(&mut self, items: &BTreeSet<usize>, except: Option<Stream>) {
        for (stream, order) in &mut self.orders {
            if Some(*stream) != except && order.open.is_some_and(|open| items.contains(&open)) {
                order.open = None;
            }
        }
    }

    /// Adds a node with work, and returns its item.
    fn compute(&mut self, stream: Stream, cost: NodeCost, after: BTreeSet<usize>) -> usize {
        self.close(&after, Some(stream));
        let Stream::Device(_) = stream else {
            let work = ItemWork::Compute(stream, cost);
            return self.all.push(self.task, work, after.into_iter().collect());
        };
        let order = self.orders.entry(stream).or_default();
        let new: Vec<usize> = after.difference(&order.passed).copied().collect();
        if let (Some(open), true) = (order.open, new.is_empty()) {
            if let ItemWork::Compute(_, sum) = &mut self.all.items[open].work {
                *sum += cost;
            }
            return open;
        }
        order.passed.extend(&new);
        let waits = order.last.into_iter().chain(new).collect();
        let item = self
            .all
            .push(self.task, ItemWork::Compute(stream, cost), waits);
        order.passed.insert(item);
        (order.open, order.last) = (Some(item), Some(item));
        item
    }
}

/// Number of a channel's item.
fn channel(attribute: i64) -> usize {
    usize::try_from(attribute).unwrap_or(0)
}

/// Sorts items so that each comes after those that it waits for, and marks those that follow a message of the worker.
fn sorted(items: Vec<Item>) -> Vec<Item> {
    let mut waits: Vec<usize> = items.iter().map(|item| item.after.len()).collect();
    let mut dependents = vec![Vec::new(); items.len()];
    for (number, item) in items.iter().enumerate() {
        for &before in &item.after {
            dependents[before].push(number);
        }
    }
    let ready = waits.iter().enumerate().filter(|(_, n)| **n == 0);
    let mut ready: VecDeque<usize> = ready.map(|(number, _)| number).collect();
    let mut new_number = vec![0; items.len()];
    let mut sorted: Vec<Item> = Vec::with_capacity(items.len());
    while let Some(old) = ready.pop_front() {
        let item = &items[old];
        let after: Vec<usize> = item.after.iter().map(|&b| new_number[b]).collect();
        let is_gift = |before: &Item| {
            before.follows_worker
                || before.task == TemplateTask::Worker
                    && matches!(before.work, ItemWork::Message(..))
        };
        new_number[old] = sorted.len();
        let follows_worker = after.iter().any(|&before| is_gift(&sorted[before]));
        sorted.push(Item {
            after,
            follows_worker,
            ..item.clone()
        });
        for &next in &dependents[old] {
            waits[next] -= 1;
            if waits[next] == 0 {
                ready.push_back(next);
            }
        }
    }
    sorted
}
