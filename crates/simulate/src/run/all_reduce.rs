//! Steps of ranks that all-reduce gradients.

use std::collections::BTreeMap;

use thalweg_estimate::{Algorithm, LinkCost};

use crate::cluster::Cluster;
use crate::events::{ActivityId, Work};
use crate::step::{ItemWork, StepTemplate, Stream, TemplateTask};

use super::hosts::{Hosts, ResourceUse};
use super::prediction::Prediction;
use super::recording::{Exchange, exchanges};
use super::straggling;

/// Maximum number of ranks whose messages are simulated one by one; above it the formulas of [`LinkCost`] count.
const MAX_SIMULATED_RANKS: u32 = 512;
/// Maximum bytes of a value whose messages are simulated, in memory of that size.
const MAX_SIMULATED_BYTES: f64 = (1u64 << 30) as f64;

/// Options of the exchange of gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AllReduceOptions {
    /// Algorithm between hosts; `None` for the fastest of those that are simulated.
    pub algorithm: Option<Algorithm>,
    /// Maximum bytes of gradients that are reduced together.
    pub fusion_bytes: f64,
    /// `true` to reduce within each host first, and then between hosts.
    pub hierarchical: bool,
}

impl Default for AllReduceOptions {
    /// The fastest algorithm, 64 MiB of gradients together, hosts first: the defaults of `thalweg launch hvd`.
    fn default() -> AllReduceOptions {
        AllReduceOptions {
            algorithm: None,
            fusion_bytes: 64.0 * 1024.0 * 1024.0,
            hierarchical: true,
        }
    }
}

/// Simulates a step of so many ranks, whose template has the gradients as messages to servers.
///
/// Gradients that are ready are reduced together, one all-reduce after the other, as the background threads of ranks do.
pub(super) fn simulate(
    template: &StepTemplate,
    cluster: &Cluster,
    ranks: u32,
    batch: u32,
    options: &AllReduceOptions,
) -> Prediction {
    let (gradients, compute, update) = gradients(template, cluster, ranks);
    let mut reduction = ReductionTimes {
        cluster,
        ranks,
        options,
        known: BTreeMap::new(),
    };
    let mut now: f64 = 0.0;
    let mut reducing = 0.0;
    let mut moved = 0.0;
    let mut next = 0;
    while next < gradients.len() {
        now = now.max(gradients[next].0);
        let mut bytes = 0.0;
        while let Some((ready, own)) = gradients.get(next) {
            if bytes > 0.0 && (*ready > now || bytes + own > options.fusion_bytes) {
                break;
            }
            bytes += own;
            next += 1;
        }
        let (seconds, sent) = reduction.of(bytes);
        now += seconds;
        reducing += seconds;
        moved += sent;
    }
    let mut seconds = now.max(compute) + update;
    let mut uses = vec![
        (ResourceUse::Compute, compute),
        (ResourceUse::Sending, (now - compute).max(0.0)),
        (ResourceUse::Update, update),
    ];
    let images = f64::from(ranks) * f64::from(batch * template.devices);
    if let Some(rate) = cluster.input {
        let per_host = f64::from(ranks.div_ceil(cluster.worker_hosts(ranks)));
        let reading = per_host * f64::from(batch * template.devices) / rate;
        uses.push((ResourceUse::Input, (reading - seconds).max(0.0)));
        seconds = seconds.max(reading);
    }
    let busiest = if reducing > compute {
        ("links between ranks".to_owned(), reducing / seconds)
    } else {
        ("devices".to_owned(), compute / seconds)
    };
    Prediction::of_parts(seconds, images, uses, busiest, moved)
}

/// Gradients of a step in the order in which they are ready on the slowest rank, each with that second and its bytes; the seconds
/// of computing on that rank; and the seconds of the update.
fn gradients(
    template: &StepTemplate,
    cluster: &Cluster,
    ranks: u32,
) -> (Vec<(f64, f64)>, f64, f64) {
    let mut alone = Hosts::new(cluster, 1, template.devices, 0);
    let slow = straggling::factor(ranks - 1, ranks, cluster.straggling);
    // Tasks that share the processors of a host slow each other down.
    let per_host = f64::from(ranks.div_ceil(cluster.worker_hosts(ranks)));
    let crowded = match cluster.device.gpu {
        true => 1.0,
        false => (per_host / cluster.host.tasks_at_full_speed).max(1.0),
    };
    let mut own: Vec<ActivityId> = Vec::with_capacity(template.items.len());
    let mut sent = Vec::new();
    let mut computed = Vec::new();
    let mut bytes_of_updates = 0.0;
    for item in &template.items {
        let after: Vec<ActivityId> = item.after.iter().map(|&b| own[b]).collect();
        let id = match item.work {
            ItemWork::Compute(Stream::Device(device), cost) => {
                let on = alone.device(0, device);
                let seconds = cost.seconds(&cluster.device) * slow * crowded;
                let id = alone.simulation.add(Work::Run { on, seconds }, &after);
                computed.push(id);
                id
            }
            ItemWork::Compute(Stream::Host, cost) if item.task == TemplateTask::Worker => {
                alone.update(0, cost.bytes * crowded, &after)
            }
            // Each rank updates its own variables, on its devices.
            ItemWork::Compute(Stream::Host, cost) => {
                bytes_of_updates += cost.bytes;
                alone.simulation.add(Work::Join, &after)
            }
            ItemWork::Copy(_) => alone.simulation.add(Work::Join, &after),
            ItemWork::Message(to, bytes) => {
                let id = alone.simulation.add(Work::Join, &after);
                if to != TemplateTask::Worker && item.task == TemplateTask::Worker && bytes > 0.0 {
                    sent.push((id, bytes));
                }
                id
            }
        };
        own.push(id);
    }
    let (simulation, _) = alone.into_parts();
    let outcome = simulation.run();
    let mut ready: Vec<(f64, f64)> = sent.iter().map(|&(id, b)| (outcome.end(id), b)).collect();
    ready.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = computed.iter().map(|&id| outcome.end(id));
    let memory = match cluster.device.gpu {
        true => cluster.device.bandwidth,
        false => cluster.host.bandwidth / crowded,
    };
    (ready, ends.fold(0.0, f64::max), bytes_of_updates / memory)
}

/// Seconds of all-reduces.
struct ReductionTimes<'a> {
    cluster: &'a Cluster,
    ranks: u32,
    options: &'a AllReduceOptions,
    /// By bytes: the seconds, and the bytes that leave hosts.
    known: BTreeMap<u64, (f64, f64)>,
}

impl ReductionTimes<'_> {
    fn of(&mut self, bytes: f64) -> (f64, f64) {
        if self.ranks == 1 {
            return (0.0, 0.0);
        }
        let key = bytes as u64;
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let seconds = |algorithm| seconds(self.cluster, self.ranks, algorithm, bytes, self.options);
        let fastest = match self.options.algorithm {
            Some(only) => seconds(only),
            None => Algorithm::ALL
                .into_iter()
                .map(seconds)
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .unwrap_or_default(),
        };
        self.known.insert(key, fastest);
        fastest
    }
}

/// Seconds of an all-reduce of so many bytes while nothing else uses the links, and the bytes that leave hosts (about, if it is not
/// simulated message by message).
pub(super) fn seconds(
    cluster: &Cluster,
    ranks: u32,
    algorithm: Algorithm,
    bytes: f64,
    options: &AllReduceOptions,
) -> (f64, f64) {
    let mut hosts = Hosts::new(cluster, ranks, 1, 0);
    let count = cluster.worker_hosts(ranks);
    let local = ranks.div_ceil(count);
    let by_host = options.hierarchical && local > 1;
    let begin: Vec<ActivityId> = (0..ranks)
        .map(|rank| match by_host {
            // Each rank of a host writes its values and reads those of the others.
            true => hosts.between_devices(rank, 2.0 * bytes, &[]),
            false => hosts.simulation.add(Work::Join, &[]),
        })
        .collect();
    let mut ends = begin.clone();
    let across = if by_host { count } else { ranks };
    if across > MAX_SIMULATED_RANKS || bytes > MAX_SIMULATED_BYTES {
        // Ranks of a host share its port.
        let sharing = if by_host { 1.0 } else { f64::from(local) };
        let cost = LinkCost {
            message: cluster.network.latency + cluster.network.call,
            byte: sharing / cluster.network.bandwidth,
            reduced: 3.0 / cluster.device.bandwidth,
            only: None,
        };
        let seconds = cost.of(algorithm, across as usize, bytes as usize);
        let (simulation, _) = hosts.into_parts();
        return (
            simulation.run().seconds() + seconds,
            2.0 * bytes * f64::from(across),
        );
    }
    if by_host && count > 1 {
        // Each rank reduces its part with the ranks of its number on other hosts.
        let elements = (bytes / 4.0 / f64::from(local)).ceil() as usize;
        let recorded = exchanges(algorithm, count as usize, elements);
        for nth in 0..local {
            let members: Vec<u32> = (0..count).map(|host| nth * count + host).collect();
            let members: Vec<u32> = members.into_iter().filter(|m| *m < ranks).collect();
            if members.len() == count as usize {
                add_exchanges(&mut hosts, &members, &recorded, &mut ends);
            }
        }
    } else if !by_host {
        let members: Vec<u32> = (0..ranks).collect();
        let elements = (bytes / 4.0).ceil() as usize;
        let recorded = exchanges(algorithm, ranks as usize, elements);
        add_exchanges(&mut hosts, &members, &recorded, &mut ends);
    }
    if by_host {
        for rank in 0..ranks {
            ends[rank as usize] = hosts.between_devices(rank, bytes, &[ends[rank as usize]]);
        }
    }
    let moved = hosts.bytes;
    let (simulation, _) = hosts.into_parts();
    (simulation.run().seconds(), moved)
}

/// Adds the exchanges of these members, each after its own end so far.
fn add_exchanges(
    hosts: &mut Hosts<'_>,
    members: &[u32],
    recorded: &[Vec<Exchange>],
    ends: &mut [ActivityId],
) {
    // By sender and receiver: messages that are not received yet, in order.
    let mut messages: BTreeMap<(usize, usize), Vec<ActivityId>> = BTreeMap::new();
    let mut received: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut next = vec![0; members.len()];
    let mut sent: Vec<Option<ActivityId>> = vec![None; members.len()];
    loop {
        let mut goes_on = false;
        for (place, own) in recorded.iter().enumerate() {
            let rank = members[place] as usize;
            while let Some(exchange) = own.get(next[place]) {
                let host = |place: usize| hosts.host_of_worker(members[place]);
                if let (Some((to, bytes)), None) = (exchange.sends, sent[place]) {
                    let route = (host(place), host(to));
                    let id = hosts.message(route, bytes, 1.0, &[ends[rank]]);
                    messages.entry((place, to)).or_default().push(id);
                    sent[place] = Some(id);
                    goes_on = true;
                }
                let mut after: Vec<ActivityId> = vec![ends[rank]];
                after.extend(sent[place]);
                if let Some((from, bytes, reduces)) = exchange.receives {
                    let at = received.entry((from, place)).or_default();
                    let Some(&message) = messages.get(&(from, place)).and_then(|all| all.get(*at))
                    else {
                        break;
                    };
                    *at += 1;
                    after.push(message);
                    if reduces {
                        // Two values are read, and one is written.
                        after = vec![hosts.reduction(members[place], 3.0 * bytes, &after)];
                    }
                }
                ends[rank] = hosts.simulation.add(Work::Join, &after);
                sent[place] = None;
                next[place] += 1;
                goes_on = true;
            }
        }
        if !goes_on {
            break;
        }
    }
}
