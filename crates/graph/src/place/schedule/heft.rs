//! HEFT: nodes in the order of their distance from the end of the step, each where it ends first.

use std::sync::Arc;

use super::{Costs, Link};
use crate::data::GraphData;
use crate::node::{Node, NodeId};
use crate::op::Effect;
use crate::place::assign::Placer;
use crate::place::{PlaceError, Why};

/// Gives a device to every node whose group may stand on several.
pub(super) fn assign(placer: &mut Placer<'_>, costs: &Costs<'_>) -> Result<(), PlaceError> {
    let groups = Groups::new(placer)?;
    let mut heft = Heft::new(placer.data, costs, placer.options.devices.len(), groups);
    for id in heft.order() {
        heft.place(id);
    }
    let groups = heft.groups;
    for id in placer.data.ids() {
        let group = &groups.all[groups.of[id.index()]];
        if group.free && placer.at(id).is_none() {
            // A group that nothing ever reads is as well where it would be anyway.
            let device = group.device.unwrap_or(group.candidates[0]);
            placer.put(id, device, Why::Cost);
        }
    }
    Ok(())
}

/// A group of the placer, and where it stands once that is decided.
struct Group {
    candidates: Arc<[u32]>,
    free: bool,
    device: Option<u32>,
}

struct Groups {
    all: Vec<Group>,
    of: Vec<usize>,
}

impl Groups {
    fn new(placer: &mut Placer<'_>) -> Result<Groups, PlaceError> {
        let mut by_root: Vec<Option<usize>> = vec![None; placer.data.len()];
        let mut groups = Groups {
            all: Vec::new(),
            of: Vec::with_capacity(placer.data.len()),
        };
        for id in placer.data.ids() {
            let root = placer.groups.root(id.index());
            let group = match by_root[root] {
                Some(group) => group,
                None => {
                    let candidates = match placer.device_of_group(id) {
                        Some(device) => Arc::from([device]),
                        None => placer.candidates(id)?,
                    };
                    let free = candidates.len() > 1;
                    groups.all.push(Group {
                        device: (!free).then(|| candidates[0]),
                        free,
                        candidates,
                    });
                    groups.all.len() - 1
                }
            };
            by_root[root] = Some(group);
            groups.of.push(group);
        }
        Ok(groups)
    }
}

struct Heft<'a> {
    data: &'a GraphData,
    costs: &'a Costs<'a>,
    groups: Groups,
    /// The links, by source times devices plus destination.
    links: Vec<Link>,
    /// When each device has run what it has so far.
    free_at: Vec<u64>,
    /// When each node ends, once it is scheduled.
    finish: Vec<Option<u64>>,
}

/// Whether a node can wait for its first consumer before it is decided where it stands: it needs
/// nothing that moves, so alone it is as good on one device as on another.
fn can_wait(node: &Node) -> bool {
    let source = node.inputs.is_empty() || node.op.effect == Effect::Read;
    source && node.controls.is_empty()
}

impl<'a> Heft<'a> {
    fn new(data: &'a GraphData, costs: &'a Costs<'a>, devices: usize, groups: Groups) -> Heft<'a> {
        let here = Link {
            latency: 0,
            bandwidth: u64::MAX,
        };
        let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to)));
        let links = pairs.map(|(from, to)| match from == to {
            true => here,
            false => (costs.link)(from, to),
        });
        Heft {
            data,
            costs,
            groups,
            links: links.collect(),
            free_at: vec![0; devices],
            finish: vec![None; data.len()],
        }
    }

    fn group(&self, id: NodeId) -> &Group {
        &self.groups.all[self.groups.of[id.index()]]
    }

    /// The nodes by upward rank: the mean time from the start of a node to the end of the step.
    /// Each comes after those it uses, for its rank is no higher and its number is.
    fn order(&self) -> Vec<NodeId> {
        let mut rank: Vec<u64> = vec![0; self.data.len()];
        let mean_link = self.mean_link();
        for id in self.data.ids().rev() {
            let candidates = &self.group(id).candidates;
            let cost = |d: &u32| u128::from((self.costs.node)(id, *d as usize));
            let total: u128 = candidates.iter().map(cost).sum();
            let mean = (total / candidates.len().max(1) as u128) as u64;
            let own = rank[id.index()].saturating_add(mean);
            rank[id.index()] = own;
            let node = self.data.node(id);
            let group = self.groups.of[id.index()];
            let mut reach = |source: NodeId, bytes: u64| {
                let together = self.groups.of[source.index()] == group;
                let way = if together { 0 } else { mean_link.time(bytes) };
                let rank = &mut rank[source.index()];
                *rank = (*rank).max(own.saturating_add(way));
            };
            for &input in &node.inputs {
                reach(input.node, (self.costs.bytes)(input));
            }
            for &control in &node.controls {
                reach(control, 0);
            }
        }
        let mut order: Vec<NodeId> = self.data.ids().collect();
        order.sort_by_key(|id| (std::cmp::Reverse(rank[id.index()]), *id));
        order
    }

    /// A link as an average pair of devices has it, pairs of one device included.
    fn mean_link(&self) -> Link {
        let count = self.links.len().max(1) as u128;
        let latency: u128 = self.links.iter().map(|l| u128::from(l.latency)).sum();
        // Of times and not of bandwidths: what counts is how long a byte takes.
        let byte = |l: &Link| match l.bandwidth {
            0 => 0.0,
            b => 1.0 / b as f64,
        };
        let time: f64 = self.links.iter().map(byte).sum::<f64>() / count as f64;
        Link {
            latency: (latency / count) as u64,
            bandwidth: (1.0 / time) as u64,
        }
    }

    /// Schedules a node: where its group stands, or where it ends first.
    fn place(&mut self, id: NodeId) {
        let data = self.data;
        let node = data.node(id);
        let device = match self.group(id).device {
            Some(device) => device,
            None if can_wait(node) => return,
            None => {
                let candidates = &self.group(id).candidates;
                // Of devices that are as good the one that comes first stands.
                let best = candidates.iter().min_by_key(|d| self.end(id, node, **d));
                best.copied().unwrap_or(candidates[0])
            }
        };
        self.decide(id, device);
        // Those that waited for a consumer run now, before it.
        for source in sources(node) {
            if self.finish[source.index()].is_none() {
                let at = self.stand(source, device);
                self.decide(source, at);
                let end = self.free_at[at as usize].saturating_add(self.cost(source, at));
                self.finish[source.index()] = Some(end);
                self.free_at[at as usize] = end;
            }
        }
        let end = self.end(id, node, device);
        self.finish[id.index()] = Some(end);
        self.free_at[device as usize] = end;
    }

    fn decide(&mut self, id: NodeId, device: u32) {
        let group = self.groups.of[id.index()];
        self.groups.all[group].device.get_or_insert(device);
    }

    /// Where a node would stand if its consumer stood on `device`.
    fn stand(&self, id: NodeId, device: u32) -> u32 {
        let group = self.group(id);
        let follows = group.candidates.contains(&device);
        let otherwise = if follows { device } else { group.candidates[0] };
        group.device.unwrap_or(otherwise)
    }

    fn cost(&self, id: NodeId, device: u32) -> u64 {
        (self.costs.node)(id, device as usize)
    }

    /// When a node would end on a device, after all that the device has run so far.
    fn end(&self, id: NodeId, node: &Node, device: u32) -> u64 {
        let here = device as usize;
        let mut start = self.free_at[here];
        let mut before: u64 = 0;
        let mut arrives = |source: NodeId, bytes: u64| {
            let at = self.stand(source, device);
            let sent = match self.finish[source.index()] {
                Some(sent) => sent,
                None if at == device => {
                    before = before.saturating_add(self.cost(source, at));
                    return;
                }
                None => self.free_at[at as usize].saturating_add(self.cost(source, at)),
            };
            if at == device {
                start = start.max(sent);
            } else {
                let link = self.links[at as usize * self.free_at.len() + here];
                start = start.max(sent.saturating_add(link.time(bytes)));
            }
        };
        for &input in &node.inputs {
            arrives(input.node, (self.costs.bytes)(input));
        }
        for &control in &node.controls {
            arrives(control, 0);
        }
        start
            .saturating_add(before)
            .saturating_add(self.cost(id, device))
    }
}

/// The nodes that a node waits for.
fn sources(node: &Node) -> impl Iterator<Item = NodeId> {
    let inputs = node.inputs.iter().map(|i| i.node);
    inputs.chain(node.controls.iter().copied())
}
