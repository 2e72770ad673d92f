//! Layout of a job: the host, port, GPUs and cores of each task. Its functions start nothing.

mod cluster;
mod host_list;
mod ports;
mod ranks;
mod resources;
#[cfg(test)]
mod tests;

use std::fmt::{Display, Formatter};

pub use host_list::JobHost;
pub use ports::PortChoice;
pub use resources::{HostResources, Sharing};

use crate::error::Result;

/// Number and places of the tasks of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobShape {
    /// Parameter servers and workers.
    Cluster(ClusterShape),
    /// So many ranks, which exchange values by collectives. They fill the hosts in order.
    Ranks(usize),
}

/// Servers and workers over the hosts. Both fill the hosts in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterShape {
    /// Number of parameter servers.
    pub servers: usize,
    /// Number of workers. By default the slots of the workers' hosts if they are given, and one for each host otherwise.
    pub workers: Option<usize>,
    /// Maximum number of servers of a host.
    pub servers_per_host: usize,
    /// Maximum number of workers of a host; by default its slots, and 1 without slots.
    pub workers_per_host: Option<usize>,
    /// `true` if workers run on the servers' hosts too; `false` to begin after them.
    pub servers_beside_workers: bool,
}

/// Shape that the report's scripts have without settings: a server on the first host, and a worker on each.
impl Default for ClusterShape {
    fn default() -> ClusterShape {
        ClusterShape {
            servers: 1,
            workers: None,
            servers_per_host: 1,
            workers_per_host: None,
            servers_beside_workers: true,
        }
    }
}

/// Kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Parameter server.
    Server,
    /// Worker.
    Worker,
    /// Rank.
    Rank,
}

/// Name of the job, as in the flag `--job_name`: `ps`, `worker` or `rank`.
impl Display for TaskKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TaskKind::Server => "ps",
            TaskKind::Worker => "worker",
            TaskKind::Rank => "rank",
        })
    }
}

/// Task at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedTask {
    /// Kind of the task.
    pub kind: TaskKind,
    /// Number among the tasks of its kind.
    pub index: usize,
    /// Index of its host.
    pub host: usize,
    /// Number among the tasks of its kind on the host.
    pub local: usize,
    /// Number of tasks of its kind on the host.
    pub local_size: usize,
    /// Port at which it listens; 0 for ranks, which choose their own.
    pub port: u16,
    /// GPUs that it sees; `None` for those of its environment.
    pub gpus: Option<Vec<String>>,
    /// Cores on which it runs; all of the host if empty.
    pub cores: Vec<usize>,
}

impl PlacedTask {
    /// Name of the task, such as `worker 1`.
    pub fn name(&self) -> String {
        format!("{} {}", self.kind, self.index)
    }
}

/// Places the tasks of a job on hosts. Servers come first, then workers, each in the order of their numbers.
///
/// # Errors
/// The hosts are too few, or have too few slots.
pub fn place(shape: &JobShape, hosts: &[JobHost]) -> Result<Vec<PlacedTask>> {
    match shape {
        JobShape::Cluster(shape) => cluster::place(shape, hosts),
        JobShape::Ranks(ranks) => ranks::place(*ranks, hosts),
    }
}

/// Chooses the ports, GPUs and cores of placed tasks from what each host has.
///
/// # Errors
/// A host has too few free ports.
pub fn assign(
    tasks: &mut [PlacedTask],
    hosts: &[HostResources],
    ports: &PortChoice,
    sharing: Sharing,
) -> Result<()> {
    resources::assign(tasks, hosts, ports, sharing)
}

/// Adds `count` tasks of a kind to a host, numbered on from `first`.
fn add(tasks: &mut Vec<PlacedTask>, kind: TaskKind, first: usize, host: usize, count: usize) {
    tasks.extend((0..count).map(|local| PlacedTask {
        kind,
        index: first + local,
        host,
        local,
        local_size: count,
        port: 0,
        gpus: None,
        cores: Vec::new(),
    }));
}
