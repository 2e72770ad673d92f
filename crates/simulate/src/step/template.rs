//! Template of a step: the parts of one worker's step as items, which a simulation repeats for each worker.

use std::sync::Arc;

use super::node_cost::NodeCost;
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
    /// Nodes that it computes, in the order of the plan; the node that makes the value which it copies; the node that sends.
    pub nodes: Vec<Arc<str>>,
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

impl StepTemplate {
    /// The same step with staged values: the worker computes with the values that it fetched in the step before, and fetches
    /// those of the next step meanwhile. Values that follow the worker's own messages are not staged.
    #[must_use]
    pub fn staged(mut self) -> StepTemplate {
        let worker = TemplateTask::Worker;
        // By item: `true` for a value that arrives at the worker, and for its copies to devices.
        let mut fetches: Vec<bool> = Vec::with_capacity(self.items.len());
        for item in &mut self.items {
            let follows_fetch = item.after.iter().any(|&before| fetches[before]);
            let fetch = match item.work {
                ItemWork::Message(to, _) => to == worker && !item.follows_worker,
                ItemWork::Copy(_) => item.task == worker && follows_fetch,
                ItemWork::Compute(..) => false,
            };
            if item.task == worker && !fetch {
                item.after.retain(|&before| !fetches[before]);
            }
            fetches.push(fetch);
        }
        self
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
