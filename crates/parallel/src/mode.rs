//! The ways to update variables, and where they may be.

use std::fmt;
use std::str::FromStr;

use crate::error::ParallelError;

/// Where variables are, and what crosses between devices in a step: see the table of the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariableUpdate {
    /// Each tower has variables of its own, and learns alone.
    Independent,
    /// All towers share one set of variables.
    ParameterServer,
    /// Each tower has a copy of the variables, and all copies stay equal.
    Replicated,
    /// As `Replicated` on each worker; servers have the variables that are updated.
    DistributedReplicated,
    /// As `Replicated` on each rank of a job, and gradients are all-reduced over all ranks.
    Horovod,
}

impl VariableUpdate {
    /// All of them.
    pub const ALL: [VariableUpdate; 5] = [
        VariableUpdate::Independent,
        VariableUpdate::ParameterServer,
        VariableUpdate::Replicated,
        VariableUpdate::DistributedReplicated,
        VariableUpdate::Horovod,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            VariableUpdate::Independent => "independent",
            VariableUpdate::ParameterServer => "parameter_server",
            VariableUpdate::Replicated => "replicated",
            VariableUpdate::DistributedReplicated => "distributed_replicated",
            VariableUpdate::Horovod => "horovod",
        }
    }

    /// Whether each tower has variables of its own.
    pub fn has_copies(self) -> bool {
        self != VariableUpdate::ParameterServer
    }
}

impl fmt::Display for VariableUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for VariableUpdate {
    type Err = ParallelError;

    fn from_str(text: &str) -> Result<VariableUpdate, ParallelError> {
        let mut all = VariableUpdate::ALL.into_iter();
        let found = all.find(|mode| mode.name() == text);
        found.ok_or_else(|| ParallelError::UnknownMode(text.to_owned()))
    }
}

/// What becomes of the gradients of all towers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Their mean: n towers with a batch each learn as one with a batch n times as large.
    #[default]
    Mean,
    /// Their sum, as tf_cnn_benchmarks has it in the modes with replicas: n towers also learn at n times the rate.
    Sum,
}

impl Reduction {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Mean => "mean",
            Reduction::Sum => "sum",
        }
    }

    /// What a sum of so many gradients is multiplied by; none where nothing is to be done.
    pub(crate) fn factor(self, gradients: usize) -> Option<f64> {
        match self {
            Reduction::Mean if gradients > 1 => Some(1.0 / gradients as f64),
            _ => None,
        }
    }
}

/// Where a process is in a cluster of parameter servers and workers: the jobs are called `ps` and `worker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The parameter servers.
    pub servers: u32,
    /// The workers.
    pub workers: u32,
    /// Which worker this process is; none for the first server, which coordinates a synchronous training and builds the
    /// same graph.
    pub worker: Option<u32>,
}

/// Where the variables of one process are, that its towers share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterDevice {
    /// On the first CPU device.
    #[default]
    Cpu,
    /// On the towers' devices: each variable goes where the fewest bytes are.
    Towers,
}
