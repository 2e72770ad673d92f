//! Number and places of the tasks of a job.

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
