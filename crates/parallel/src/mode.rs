//! Modes: updates of variables, their placement, reduction of gradients, and the task.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thalweg_graph::Node;
use thalweg_graph::device::{DeviceFnError, Greedy, PsStrategy, RoundRobin};

/// Mode of updating variables: their placement, and the traffic between devices. See the table of the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariableUpdate {
    /// Each tower has variables of its own, and learns separately.
    Independent,
    /// All towers share one set of variables.
    ParameterServer,
    /// Each tower has a copy of the variables, and all copies stay equal.
    Replicated,
    /// Like `Replicated` on each worker; servers have the variables that are updated.
    DistributedReplicated,
    /// Like `Replicated` on each rank of a job, and gradients are all-reduced over all ranks.
    Horovod,
}

impl VariableUpdate {
    /// All modes.
    pub const ALL: [VariableUpdate; 5] = [
        VariableUpdate::Independent,
        VariableUpdate::ParameterServer,
        VariableUpdate::Replicated,
        VariableUpdate::DistributedReplicated,
        VariableUpdate::Horovod,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            VariableUpdate::Independent => "independent",
            VariableUpdate::ParameterServer => "parameter_server",
            VariableUpdate::Replicated => "replicated",
            VariableUpdate::DistributedReplicated => "distributed_replicated",
            VariableUpdate::Horovod => "horovod",
        }
    }

    /// `true` if each tower has variables of its own.
    pub fn has_copies(self) -> bool {
        self != VariableUpdate::ParameterServer
    }
}

impl fmt::Display for VariableUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reduction of the gradients of all towers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Mean: n towers with a batch each learn as one with a batch n times as large.
    #[default]
    Mean,
    /// Sum, as in the replicated modes of tf_cnn_benchmarks: n towers also learn at n times the rate.
    Sum,
}

impl Reduction {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Mean => "mean",
            Reduction::Sum => "sum",
        }
    }

    /// Factor of a sum of so many gradients; `None` for 1.
    pub(crate) fn factor(self, gradients: usize) -> Option<f64> {
        match self {
            Reduction::Mean if gradients > 1 => Some(1.0 / gradients as f64),
            _ => None,
        }
    }
}

/// Place of a process in a cluster of parameter servers and workers: the jobs are called `ps` and `worker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Number of parameter servers.
    pub servers: u32,
    /// Number of workers.
    pub workers: u32,
    /// Index of this worker; `None` for the first server, which coordinates a synchronous training and builds the same
    /// graph.
    pub worker: Option<u32>,
}

/// Devices of the variables that towers of one process share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterDevice {
    /// The first CPU device.
    #[default]
    Cpu,
    /// The towers' devices: each variable goes to the device with the fewest bytes.
    Towers,
}

/// Placement of variables on parameter servers.
#[derive(Clone, Debug, Default)]
pub enum ServerPlacement {
    /// The server with the fewest bytes so far, for one variable after the other.
    #[default]
    Greedy,
    /// One server after the other, as in TensorFlow.
    RoundRobin,
    /// The server of each variable, by the name of its node; the first server for others.
    Planned(Arc<BTreeMap<String, u32>>),
}

impl ServerPlacement {
    /// Plan by cost, such as bytes or seconds of a step: the variable that costs most comes first, each on the server with the
    /// least cost so far (Graham, 1969). Names decide between equal costs, so that all tasks make the same plan.
    ///
    /// ```
    /// use thalweg_parallel::ServerPlacement;
    ///
    /// let variables = [("a", 2.0), ("b", 3.0), ("c", 4.0)].map(|(name, cost)| (name.to_owned(), cost));
    /// let ServerPlacement::Planned(plan) = ServerPlacement::by_cost(variables, 2) else { unreachable!() };
    /// assert_eq!((plan["a"], plan["b"], plan["c"]), (1, 1, 0));
    /// ```
    pub fn by_cost(
        variables: impl IntoIterator<Item = (String, f64)>,
        servers: u32,
    ) -> ServerPlacement {
        let mut variables: Vec<(String, f64)> = variables.into_iter().collect();
        variables.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut loads = vec![0.0f64; servers.max(1) as usize];
        let mut plan = BTreeMap::new();
        for (name, cost) in variables {
            let least = (0..loads.len()).min_by(|a, b| loads[*a].total_cmp(&loads[*b]));
            let server = least.unwrap_or(0);
            loads[server] += cost;
            plan.insert(name, server as u32);
        }
        ServerPlacement::Planned(Arc::new(plan))
    }

    /// Strategy over so many servers.
    pub fn strategy(&self, servers: u32) -> Box<dyn PsStrategy> {
        match self {
            ServerPlacement::Greedy => Box::new(Greedy::by_bytes(servers)),
            ServerPlacement::RoundRobin => Box::new(RoundRobin::new(servers)),
            ServerPlacement::Planned(plan) => Box::new(PlannedServers(plan.clone())),
        }
    }
}

struct PlannedServers(Arc<BTreeMap<String, u32>>);

impl PsStrategy for PlannedServers {
    fn choose(&mut self, node: &Node) -> Result<u32, DeviceFnError> {
        Ok(self.0.get(&node.name).copied().unwrap_or(0))
    }
}
