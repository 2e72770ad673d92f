//! How long a step takes under a placement.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Costs;
use crate::data::GraphData;
use crate::node::{NodeId, OutputId};
use crate::place::Placement;

/// What a step takes. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// From the start of the step to the end of its last node.
    pub step: u64,
    /// How long each device computes.
    pub busy: Vec<u64>,
    /// How many tensors go from one device to another; one that several nodes of a device use
    /// goes there once.
    pub transfers: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Simulates a step that runs every node of the graph.
///
/// A device runs one node at a time, of those that are ready the one that was built first, as a
/// session does. A value sets out for another device when it exists; transfers go at the same time
/// as all else and do not slow each other down. A control edge costs the link's latency.
///
/// # Panics
/// Where the placement is not one of this graph.
pub fn estimate(data: &GraphData, placement: &Placement, costs: &Costs<'_>) -> Estimate {
    let mut simulation = Simulation {
        data,
        placement,
        costs,
        finish: vec![0; data.len()],
        ready: vec![BinaryHeap::new(); placement.devices().len()],
        idle: vec![true; placement.devices().len()],
        events: BinaryHeap::new(),
        busy: vec![0; placement.devices().len()],
    };
    let step = simulation.run();
    let busy = simulation.busy;
    let (transfers, bytes) = traffic(data, placement, costs);
    Estimate {
        step,
        busy,
        transfers,
        bytes,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// All that a node waits for is on its device.
    Ready(NodeId),
    /// A node has run.
    Done(NodeId),
}

struct Simulation<'a> {
    data: &'a GraphData,
    placement: &'a Placement,
    costs: &'a Costs<'a>,
    /// When each node ended.
    finish: Vec<u64>,
    /// By device, the nodes that could run.
    ready: Vec<BinaryHeap<Reverse<NodeId>>>,
    idle: Vec<bool>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    busy: Vec<u64>,
}

impl Simulation<'_> {
    fn run(&mut self) -> u64 {
        let mut waiting: Vec<usize> = Vec::with_capacity(self.data.len());
        for (id, node) in self.data.nodes() {
            waiting.push(node.inputs.len() + node.controls.len());
            if waiting[id.index()] == 0 {
                self.events.push(Reverse((0, Event::Ready(id))));
            }
        }
        let mut now = 0;
        let mut touched: Vec<usize> = Vec::new();
        while let Some(Reverse((time, event))) = self.events.pop() {
            now = time;
            touched.push(self.take(event, now, &mut waiting));
            // All that happens at one moment comes first, so that of the nodes that are ready
            // then the first one is taken.
            while let Some(&Reverse((t, event))) = self.events.peek()
                && t == now
            {
                self.events.pop();
                touched.push(self.take(event, now, &mut waiting));
            }
            for device in touched.drain(..) {
                self.start(device, now);
            }
        }
        now
    }

    /// Takes note of what happens, and gives the device on which it does.
    fn take(&mut self, event: Event, now: u64, waiting: &mut [usize]) -> usize {
        match event {
            Event::Ready(id) => {
                let device = self.placement.device(id);
                self.ready[device].push(Reverse(id));
                device
            }
            Event::Done(id) => {
                self.finish[id.index()] = now;
                for user in self.data.consumers(id) {
                    waiting[user.index()] -= 1;
                    if waiting[user.index()] == 0 {
                        let at = self.arrival(user).max(now);
                        self.events.push(Reverse((at, Event::Ready(user))));
                    }
                }
                let device = self.placement.device(id);
                self.idle[device] = true;
                device
            }
        }
    }

    /// When all that a node waits for is on its device.
    fn arrival(&self, id: NodeId) -> u64 {
        let to = self.placement.device(id);
        let over = |from: NodeId, bytes: &dyn Fn() -> u64| {
            let (device, sent) = (self.placement.device(from), self.finish[from.index()]);
            match device == to {
                true => sent,
                false => sent.saturating_add((self.costs.link)(device, to).time(bytes())),
            }
        };
        let node = self.data.node(id);
        let values = node.inputs.iter();
        let values = values.map(|&i| over(i.node, &|| (self.costs.bytes)(i)));
        let controls = node.controls.iter().map(|&c| over(c, &|| 0));
        values.chain(controls).max().unwrap_or(0)
    }

    /// Lets a device run the next node, if it runs none.
    fn start(&mut self, device: usize, now: u64) {
        if !self.idle[device] {
            return;
        }
        if let Some(Reverse(next)) = self.ready[device].pop() {
            let cost = (self.costs.node)(next, device);
            self.busy[device] = self.busy[device].saturating_add(cost);
            self.idle[device] = false;
            let end = now.saturating_add(cost);
            self.events.push(Reverse((end, Event::Done(next))));
        }
    }
}

/// How many tensors go between devices, and their bytes.
fn traffic(data: &GraphData, placement: &Placement, costs: &Costs<'_>) -> (usize, u64) {
    let mut sent: Vec<(OutputId, usize)> = Vec::new();
    for (id, node) in data.nodes() {
        let to = placement.device(id);
        let cut = node
            .inputs
            .iter()
            .filter(|i| placement.device(i.node) != to);
        sent.extend(cut.map(|&i| (i, to)));
    }
    sent.sort_unstable();
    sent.dedup();
    let bytes = sent.iter().map(|(output, _)| (costs.bytes)(*output));
    (sent.len(), bytes.fold(0, u64::saturating_add))
}
