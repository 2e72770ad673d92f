//! Steps of workers with parameter servers.

use crate::cluster::{Barrier, Cluster};
use crate::events::{ActivityId, Work};
use crate::step::{Item, ItemWork, StepTemplate, Stream, TemplateTask};

use super::hosts::Hosts;
use super::prediction::{Prediction, Steps};
use super::straggling;
use super::timeline::Timeline;

/// Number of steps that are simulated if workers do not wait for each other, so that they get out of step.
const FREE_STEPS: u32 = 4;

/// Simulates steps of so many workers that run this template, each on `batch` images of each device.
pub(super) fn simulate(
    template: &StepTemplate,
    cluster: &Cluster,
    workers: u32,
    batch: u32,
) -> Prediction {
    let hosts = Hosts::new(cluster, workers, template.devices, template.servers);
    let mut run = ServerRun {
        template,
        hosts,
        activities: Vec::new(),
        workers,
        images: f64::from(batch * template.devices),
        waits_for_barrier: waiting_items(template, cluster.barrier),
    };
    let mut ends: Vec<Vec<ActivityId>> = Vec::new();
    for _ in 0..steps(cluster.barrier) {
        let end = run.step(ends.last().map(Vec::as_slice));
        ends.push(end);
    }
    let steps = Steps {
        bytes: run.hosts.bytes / ends.len() as f64,
        images: f64::from(workers) * f64::from(batch * template.devices),
        ends,
    };
    let (simulation, uses) = run.hosts.into_parts();
    let timeline = Timeline {
        outcome: simulation.run(),
        uses,
        items: run.activities,
        nodes: template.items.iter().map(|i| i.nodes.clone()).collect(),
    };
    Prediction::new(timeline, &steps)
}

/// Number of steps that are simulated.
pub(crate) fn steps(barrier: Barrier) -> u32 {
    match barrier {
        Barrier::None => FREE_STEPS,
        Barrier::Turns | Barrier::Tokens => 1,
    }
}

/// By item: `true` if it runs after the barrier. Values that follow updates are those of all workers.
fn waiting_items(template: &StepTemplate, barrier: Barrier) -> Vec<bool> {
    let mut waits: Vec<bool> = Vec::with_capacity(template.items.len());
    for item in &template.items {
        let to_worker = matches!(item.work, ItemWork::Message(TemplateTask::Worker, _));
        let own = item.follows_worker && to_worker && barrier != Barrier::None;
        waits.push(own || item.after.iter().any(|&before| waits[before]));
    }
    waits
}

struct ServerRun<'a> {
    template: &'a StepTemplate,
    hosts: Hosts<'a>,
    workers: u32,
    /// Images of a step of a worker.
    images: f64,
    waits_for_barrier: Vec<bool>,
    /// Activities of items, and the numbers of the items.
    activities: Vec<(ActivityId, u32)>,
}

impl ServerRun<'_> {
    /// Adds a step of all workers after the ends of the one before, and returns their ends.
    fn step(&mut self, before: Option<&[ActivityId]>) -> Vec<ActivityId> {
        let workers = self.workers;
        let mut items: Vec<Vec<ActivityId>> = Vec::with_capacity(workers as usize);
        let mut arrived = Vec::with_capacity(workers as usize);
        for worker in 0..workers {
            let start = before.map(|ends| ends[worker as usize]);
            let mut own = vec![None; self.template.items.len()];
            self.add(worker, start, false, &mut own);
            let mut last: Vec<ActivityId> = own.iter().flatten().copied().collect();
            let host = self.hosts.host_of_worker(worker);
            last.extend(self.hosts.input(host, self.images));
            arrived.push(self.hosts.simulation.add(Work::Join, &last));
            let all = own.iter().map(|id| id.unwrap_or(arrived[worker as usize]));
            items.push(all.collect());
        }
        let passed = self.hosts.barrier(&arrived, self.template.servers);
        if !self.waits_for_barrier.contains(&true) {
            return passed;
        }
        let mut ends = Vec::with_capacity(workers as usize);
        for (worker, items) in items.into_iter().enumerate() {
            let mut own: Vec<Option<ActivityId>> = items.into_iter().map(Some).collect();
            let start = passed[worker];
            let added = self.add(worker as u32, Some(start), true, &mut own);
            ends.push(self.hosts.simulation.add(Work::Join, &added));
        }
        ends
    }

    /// Adds the items of a worker before the barrier or after it. Items without others before them begin after `start`.
    fn add(
        &mut self,
        worker: u32,
        start: Option<ActivityId>,
        after_barrier: bool,
        own: &mut [Option<ActivityId>],
    ) -> Vec<ActivityId> {
        let template = self.template;
        let mut added = Vec::new();
        for (number, item) in template.items.iter().enumerate() {
            if self.waits_for_barrier[number] != after_barrier {
                continue;
            }
            let mut after: Vec<ActivityId> = item.after.iter().filter_map(|&b| own[b]).collect();
            if after.is_empty() || after_barrier {
                after.extend(start);
            }
            let id = self.item(worker, item, &after);
            own[number] = Some(id);
            self.activities.push((id, number as u32));
            added.push(id);
        }
        added
    }

    fn item(&mut self, worker: u32, item: &Item, after: &[ActivityId]) -> ActivityId {
        let host = |task: TemplateTask| match task {
            TemplateTask::Worker => self.hosts.host_of_worker(worker),
            TemplateTask::Server(server) => self.hosts.host_of_server(server),
        };
        let own = host(item.task);
        match item.work {
            ItemWork::Message(to, bytes) => {
                let route = (own, host(to));
                self.hosts.message(route, bytes, 1.0, after)
            }
            ItemWork::Copy(bytes) => self.hosts.copy(own, bytes, after),
            ItemWork::Compute(Stream::Host, cost) => self.hosts.update(own, cost.bytes, after),
            ItemWork::Compute(Stream::Device(device), cost) => {
                let slow = straggling::factor(worker, self.workers, self.hosts.cluster.straggling);
                let seconds = slow * cost.seconds(&self.hosts.cluster.device);
                let on = self.hosts.device(worker, device);
                self.hosts.simulation.add(Work::Run { on, seconds }, after)
            }
        }
    }
}
