//! Hosts of a cluster as resources of a simulation.

use crate::cluster::{Barrier, Cluster, ServerHosts};
use crate::events::{ActivityId, ResourceId, Simulation, Work};

/// Use of a resource, by which time is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceUse {
    /// Devices compute the model.
    Compute,
    /// Processors of hosts update variables and add up gradients.
    Update,
    /// Values are copied between a host and its devices.
    Copy,
    /// Messages between tasks of one host.
    Local,
    /// Messages that leave a host.
    Sending,
    /// Messages that arrive at a host.
    Receiving,
    /// Images are read and decoded.
    Input,
    /// First bytes of messages are on their way, and nothing else can go on.
    Latency,
}

impl ResourceUse {
    /// All uses.
    pub const ALL: [ResourceUse; 8] = [
        ResourceUse::Compute,
        ResourceUse::Update,
        ResourceUse::Copy,
        ResourceUse::Local,
        ResourceUse::Sending,
        ResourceUse::Receiving,
        ResourceUse::Input,
        ResourceUse::Latency,
    ];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            ResourceUse::Compute => "computing",
            ResourceUse::Update => "updating",
            ResourceUse::Copy => "copying to and from devices",
            ResourceUse::Local => "messages within a host",
            ResourceUse::Sending => "sending",
            ResourceUse::Receiving => "receiving",
            ResourceUse::Input => "input",
            ResourceUse::Latency => "latency",
        }
    }
}

/// Resources of a host.
struct Host {
    out: ResourceId,
    into: ResourceId,
    local: ResourceId,
    processor: ResourceId,
    copies: ResourceId,
    input: ResourceId,
}

/// Hosts with their resources.
pub(super) struct Hosts<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) simulation: Simulation,
    hosts: Vec<Host>,
    /// By worker and device.
    devices: Vec<Vec<ResourceId>>,
    /// By resource.
    uses: Vec<ResourceUse>,
    worker_hosts: u32,
    /// Bytes of messages between hosts.
    pub(super) bytes: f64,
}

impl<'a> Hosts<'a> {
    /// Hosts of so many workers, each with so many devices, and servers.
    pub(super) fn new(cluster: &'a Cluster, workers: u32, devices: u32, servers: u32) -> Hosts<'a> {
        let worker_hosts = cluster.worker_hosts(workers);
        let all = match cluster.servers {
            ServerHosts::Workers => worker_hosts,
            ServerHosts::Own => worker_hosts + servers,
        };
        let mut hosts = Hosts {
            cluster,
            simulation: Simulation::default(),
            hosts: Vec::new(),
            devices: Vec::new(),
            uses: Vec::new(),
            worker_hosts,
            bytes: 0.0,
        };
        for number in 0..all {
            hosts.add_host(number);
        }
        for worker in 0..workers {
            let own = (0..devices).map(|device| hosts.add_device(worker, device));
            let own = own.collect();
            hosts.devices.push(own);
        }
        hosts
    }

    fn add_host(&mut self, number: u32) {
        let simulation = &mut self.simulation;
        let mut serial = |what: &str, uses: ResourceUse| {
            self.uses.push(uses);
            simulation.serial(format!("host {number}, {what}"))
        };
        let out = serial("sending", ResourceUse::Sending);
        let into = serial("receiving", ResourceUse::Receiving);
        let local = serial("messages within it", ResourceUse::Local);
        let copies = serial("copies to and from devices", ResourceUse::Copy);
        let input = serial("input", ResourceUse::Input);
        let processor = if self.cluster.device.gpu {
            serial("processor", ResourceUse::Update)
        } else {
            self.uses.push(ResourceUse::Compute);
            let room = self.cluster.host.tasks_at_full_speed;
            simulation.shared(format!("host {number}, processor"), room)
        };
        self.hosts.push(Host {
            out,
            into,
            local,
            processor,
            copies,
            input,
        });
    }

    fn add_device(&mut self, worker: u32, device: u32) -> ResourceId {
        if !self.cluster.device.gpu {
            return self.hosts[self.host_of_worker(worker)].processor;
        }
        self.uses.push(ResourceUse::Compute);
        let name = format!("worker {worker}, device {device}");
        self.simulation.serial(name)
    }

    /// The simulation, and the use of each resource.
    pub(super) fn into_parts(self) -> (Simulation, Vec<ResourceUse>) {
        (self.simulation, self.uses)
    }

    pub(super) fn host_of_worker(&self, worker: u32) -> usize {
        (worker % self.worker_hosts) as usize
    }

    pub(super) fn host_of_server(&self, server: u32) -> usize {
        match self.cluster.servers {
            ServerHosts::Workers => (server % self.worker_hosts) as usize,
            ServerHosts::Own => (self.worker_hosts + server) as usize,
        }
    }

    pub(super) fn device(&self, worker: u32, device: u32) -> ResourceId {
        self.devices[worker as usize][device as usize]
    }

    /// Adds a message of so many bytes from host to host, in `calls` messages.
    pub(super) fn message(
        &mut self,
        (from, to): (usize, usize),
        bytes: f64,
        calls: f64,
        after: &[ActivityId],
    ) -> ActivityId {
        let same = from == to;
        let link = if same {
            self.cluster.local
        } else {
            self.cluster.network
        };
        let seconds = link.call * calls + bytes / link.bandwidth;
        if !same {
            self.bytes += bytes;
        }
        let work = match same {
            true => Work::Run {
                on: self.hosts[from].local,
                seconds: seconds + link.latency,
            },
            false => Work::Message {
                out: self.hosts[from].out,
                into: self.hosts[to].into,
                seconds,
                latency: link.latency,
            },
        };
        self.simulation.add(work, after)
    }

    /// Adds an update that moves so many bytes of a host's memory.
    pub(super) fn update(&mut self, host: usize, bytes: f64, after: &[ActivityId]) -> ActivityId {
        let seconds = bytes / self.cluster.host.bandwidth;
        let on = self.hosts[host].processor;
        self.simulation.add(Work::Run { on, seconds }, after)
    }

    /// Adds a reduction that moves so many bytes of memory of a worker's first device.
    pub(super) fn reduction(
        &mut self,
        worker: u32,
        bytes: f64,
        after: &[ActivityId],
    ) -> ActivityId {
        if !self.cluster.device.gpu {
            return self.update(self.host_of_worker(worker), bytes, after);
        }
        let seconds = bytes / self.cluster.device.bandwidth;
        let on = self.device(worker, 0);
        self.simulation.add(Work::Run { on, seconds }, after)
    }

    /// Adds the exchange of so many bytes between the devices of a host, for a worker's share.
    pub(super) fn between_devices(
        &mut self,
        worker: u32,
        bytes: f64,
        after: &[ActivityId],
    ) -> ActivityId {
        let host = self.host_of_worker(worker);
        match self.cluster.device.gpu {
            true => self.copy(host, bytes, after),
            false => self.update(host, bytes, after),
        }
    }

    /// Adds a copy of so many bytes between a host and a device.
    pub(super) fn copy(&mut self, host: usize, bytes: f64, after: &[ActivityId]) -> ActivityId {
        let work = match self.cluster.device.gpu {
            true => Work::Run {
                on: self.hosts[host].copies,
                seconds: bytes / self.cluster.host.copy_bandwidth,
            },
            false => Work::Join,
        };
        self.simulation.add(work, after)
    }

    /// Adds the reading of so many images by a host; `None` if images are made in memory.
    pub(super) fn input(&mut self, host: usize, images: f64) -> Option<ActivityId> {
        let seconds = images / self.cluster.input?;
        let on = self.hosts[host].input;
        Some(self.simulation.add(Work::Run { on, seconds }, &[]))
    }

    /// Adds the barrier that each worker passes after its activity here; returns the activity of each worker after it.
    pub(super) fn barrier(&mut self, arrived: &[ActivityId], servers: u32) -> Vec<ActivityId> {
        let workers = arrived.len() as u32;
        if workers == 1 || servers == 0 {
            return arrived.to_vec();
        }
        match self.cluster.barrier {
            Barrier::None => arrived.to_vec(),
            Barrier::Turns => {
                let coordinator = self.host_of_server(0);
                let gifts: Vec<ActivityId> = (0..workers)
                    .map(|w| {
                        let route = (self.host_of_worker(w), coordinator);
                        self.message(route, 0.0, 1.0, &[arrived[w as usize]])
                    })
                    .collect();
                let turn = self.simulation.add(Work::Join, &gifts);
                let back = |w| {
                    let route = (coordinator, self.host_of_worker(w));
                    self.message(route, 0.0, 1.0, &[turn])
                };
                (0..workers).map(back).collect()
            }
            Barrier::Tokens => {
                // The queue of worker q is on server q % servers.
                let queues = |server: u32| (workers - server).div_ceil(servers);
                let used = servers.min(workers);
                let mut tokens = Vec::new();
                for worker in 0..workers {
                    for server in 0..used {
                        let own = u32::from(worker % servers == server);
                        let count = f64::from(queues(server) - own);
                        let route = (self.host_of_worker(worker), self.host_of_server(server));
                        let after = [arrived[worker as usize]];
                        tokens.push(self.message(route, 0.0, count, &after));
                    }
                }
                let turn = self.simulation.add(Work::Join, &tokens);
                let back = |w| {
                    let route = (self.host_of_server(w % servers), self.host_of_worker(w));
                    self.message(route, 0.0, 1.0, &[turn])
                };
                (0..workers).map(back).collect()
            }
        }
    }
}
