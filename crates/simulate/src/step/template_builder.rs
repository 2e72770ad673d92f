//! Templates of partitions: kernels in the order of the plan, copies, and messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use thalweg_graph::op::Effect;
use thalweg_graph::{Fact, Node, NodeId, OutputId};
use thalweg_plan::{TaskPart, TaskPartition};

use super::node_cost::{NodeCost, fact_bytes};
use super::template::{Item, ItemWork, StepTemplate, Stream, TemplateTask};

/// Device of a task in a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct DevicePlace {
    pub task: TemplateTask,
    pub stream: Stream,
}

/// Template of a partition. `places` has the place of each device of the cluster, and `tasks` the task of each number.
pub(super) fn template_of(
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
        let from = tasks[channel.from as usize];
        builder.push(from, ItemWork::Message(to, 0.0), Vec::new(), "");
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

struct TemplateBuilder<'a> {
    places: &'a [DevicePlace],
    items: Vec<Item>,
}

impl TemplateBuilder<'_> {
    fn push(&mut self, task: TemplateTask, work: ItemWork, after: Vec<usize>, node: &str) -> usize {
        self.items.push(Item {
            task,
            work,
            after,
            follows_worker: false,
            nodes: vec![node.into()],
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
                    self.send(node, fact, after);
                    Vec::new()
                }
                _ => {
                    let cost = NodeCost::of(graph, node);
                    if cost == NodeCost::default() {
                        after.into_iter().collect()
                    } else {
                        vec![self.compute(stream, cost, after, &node.name)]
                    }
                }
            };
            self.done.push(done);
        }
    }

    fn send(&mut self, node: &Node, fact: Option<&Fact>, after: BTreeSet<usize>) {
        self.close(&after, None);
        let item = &mut self.all.items[channel(node.attrs.int("channel"))];
        item.nodes = vec![node.name.as_str().into()];
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
        let name = &self.part.graph.node(output.node).name;
        let copy = self.all.push(self.task, ItemWork::Copy(bytes), done, name);
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
    fn compute(
        &mut self,
        stream: Stream,
        cost: NodeCost,
        after: BTreeSet<usize>,
        name: &str,
    ) -> usize {
        self.close(&after, Some(stream));
        let work = ItemWork::Compute(stream, cost);
        let Stream::Device(_) = stream else {
            let after = after.into_iter().collect();
            return self.all.push(self.task, work, after, name);
        };
        let order = self.orders.entry(stream).or_default();
        let new: Vec<usize> = after.difference(&order.passed).copied().collect();
        if let (Some(open), true) = (order.open, new.is_empty()) {
            let item = &mut self.all.items[open];
            if let ItemWork::Compute(_, sum) = &mut item.work {
                *sum += cost;
            }
            item.nodes.push(name.into());
            return open;
        }
        order.passed.extend(&new);
        let waits = order.last.into_iter().chain(new).collect();
        let item = self.all.push(self.task, work, waits, name);
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
