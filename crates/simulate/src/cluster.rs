//! Clusters: speeds of devices, hosts and links.

/// Speeds of a cluster of equal hosts, in SI units.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Name.
    pub name: String,
    /// Number of hosts over which workers are spread in turn; `None` for a host for each worker.
    pub hosts: Option<u32>,
    /// Hosts of servers.
    pub servers: ServerHosts,
    /// Devices that compute the model.
    pub device: DeviceSpeed,
    /// Processors of a host.
    pub host: HostSpeed,
    /// Network between hosts.
    pub network: LinkSpeed,
    /// Exchange between tasks of one host.
    pub local: LinkSpeed,
    /// Barrier between the steps of workers.
    pub barrier: Barrier,
    /// Standard deviation of a worker's computing time, as a share of it.
    pub straggling: f64,
    /// Images that a host reads and decodes in a second; `None` if they are made in memory.
    pub input: Option<f64>,
}

impl Cluster {
    /// Number of hosts of so many workers.
    pub fn worker_hosts(&self, workers: u32) -> u32 {
        self.hosts.unwrap_or(workers).min(workers).max(1)
    }
}

/// Hosts of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerHosts {
    /// Hosts of the workers, in turn.
    #[default]
    Workers,
    /// A host for each server.
    Own,
}

/// Speed of a device that computes the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSpeed {
    /// `true` for a GPU, `false` for the processor of the host.
    pub gpu: bool,
    /// Devices of a worker.
    pub per_worker: u32,
    /// Floating-point operations a second that matrix products and convolutions reach.
    pub flops: f64,
    /// Bytes a second that other kernels read and write.
    pub bandwidth: f64,
}

/// Speed of the processors of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostSpeed {
    /// Bytes a second that updates of variables and sums of gradients read and write.
    pub bandwidth: f64,
    /// Bytes a second between the host and all its GPUs, in each direction.
    pub copy_bandwidth: f64,
    /// Tasks of CPU devices that compute at full speed at the same time on a host.
    pub tasks_at_full_speed: f64,
}

/// Speed of messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpeed {
    /// Seconds until the first byte arrives.
    pub latency: f64,
    /// Bytes a second of a host, in each direction.
    pub bandwidth: f64,
    /// Seconds for which a message keeps each port busy, however short it is.
    pub call: f64,
}

impl LinkSpeed {
    /// Seconds for which a message of so many bytes keeps a port busy.
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.call + bytes / self.bandwidth
    }
}

/// Barrier between the steps of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Barrier {
    /// No barrier: each worker goes on when its own step is done.
    None,
    /// Each worker gives one message to a coordinator and gets one.
    #[default]
    Turns,
    /// Each worker puts a token into the queue of each other worker, and takes the tokens of its own: n (n - 1) messages, on the
    /// servers in turn. This is the barrier of tf_cnn_benchmarks.
    Tokens,
}
