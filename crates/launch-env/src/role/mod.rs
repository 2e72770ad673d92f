//! Role of a process in a job of ranks, read from its environment.

use std::net::SocketAddr;

use crate::error::EnvError;
use crate::launcher::Launcher;
use crate::process::LaunchedRank;
use crate::ranks::{launcher_address, parsed};
use crate::slurm::{Allocation, SlurmStep};
use crate::variables::{self, Lookup};

type Result<T> = std::result::Result<T, EnvError>;

/// First port of the coordinators of Slurm's steps.
const FIRST_PORT: u64 = 20_000;
/// Number of ports of the coordinators of Slurm's steps. They are below those that Linux gives to outgoing connections.
const PORTS: u64 = 12_000;
/// Steps of two jobs that follow each other have different ports if the jobs have fewer steps than this.
const STEPS: u64 = 31;

/// Role of a process in a job of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// No launcher has started the process: it is the only rank of its job.
    Single,
    /// A launcher of MPI has started the process: MPI carries values.
    Mpi(LaunchedRank),
    /// A rank of a job with a fixed number of ranks.
    Rank {
        /// The rank, and its launcher.
        rank: LaunchedRank,
        /// Place of the coordinator.
        coordinator: CoordinatorAddress,
        /// Secret of the job; empty if none is set.
        secret: String,
        /// `true` if srun serves PMI or PMIx, and `THALWEG_COORDINATOR` is not set: MPI can carry the values instead.
        has_mpi: bool,
    },
    /// A worker of an elastic job: see [`ElasticWorker`](crate::ElasticWorker).
    Elastic,
}

/// Place of the coordinator, at which the ranks of a job meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorAddress {
    /// The launcher runs it.
    Launcher(SocketAddr),
    /// Rank 0 runs it.
    RankZero {
        /// Name or IP address of the host of rank 0.
        host: String,
        /// TCP port.
        port: u16,
    },
}

impl Role {
    /// Reads the role from variables that `get` looks up: the rank is that of [`LaunchedRank::from_variables`]. `TF_CONFIG`
    /// names servers and workers of a cluster, which are no ranks.
    ///
    /// Ranks of `thalweg launch hvd` meet at the launcher, which sets its address. Those of other launchers meet at rank 0:
    ///
    /// | launcher | host of rank 0 | port |
    /// | --- | --- | --- |
    /// | any | `THALWEG_COORDINATOR` | `THALWEG_COORDINATOR_PORT` |
    /// | torchrun | `MASTER_ADDR` | `MASTER_PORT` + 1, because torchrun itself listens on `MASTER_PORT` |
    /// | srun | the host of the step's first task | 20000 + (31 * job + step) % 12000 |
    ///
    /// The first row goes before the others. If all ranks are on one host, that is 127.0.0.1. Ranks of `mpirun` are
    /// [`Role::Mpi`] unless `THALWEG_COORDINATOR` is set.
    ///
    /// # Errors
    /// A variable has a value that cannot be used, or is missing beside others; a rank does not know where rank 0 is.
    pub fn from_variables(get: Lookup<'_>) -> Result<Role> {
        use variables::{COORDINATOR, SECRET, WORKER};
        if get(WORKER).is_some() {
            return Ok(Role::Elastic);
        }
        let Some(rank) = LaunchedRank::from_variables(get)? else {
            return Ok(Role::Single);
        };
        let own_coordinator = get(COORDINATOR).is_some();
        let coordinator = match rank.launcher {
            Launcher::Horovod if !own_coordinator => {
                CoordinatorAddress::Launcher(launcher_address(get, variables::RANK)?)
            }
            launcher if launcher.is_mpi() && !own_coordinator => return Ok(Role::Mpi(rank)),
            _ if rank.size == 1 => return Ok(Role::Single),
            _ => rank_zero(get, &rank)?,
        };
        let has_mpi = ["PMI_RANK", "PMIX_RANK"]
            .map(get)
            .iter()
            .any(Option::is_some);
        Ok(Role::Rank {
            rank,
            coordinator,
            secret: get(SECRET).unwrap_or_default(),
            has_mpi: rank.launcher == Launcher::Srun && has_mpi && !own_coordinator,
        })
    }
}

/// Place of the coordinator that rank 0 runs.
fn rank_zero(get: Lookup<'_>, rank: &LaunchedRank) -> Result<CoordinatorAddress> {
    use variables::{COORDINATOR, COORDINATOR_PORT};
    let unknown = |name, meaning| EnvError::NoCoordinator {
        rank: rank.rank,
        size: rank.size,
        launcher: rank.launcher,
        name,
        meaning,
    };
    let host = match (get(COORDINATOR), rank.launcher) {
        (Some(host), _) => Some(host),
        (None, _) if rank.is_on_one_host() => Some("127.0.0.1".to_owned()),
        (None, Launcher::Torchrun) => get("MASTER_ADDR"),
        (None, Launcher::Srun) => Some(first_host(get)?),
        (None, _) => None,
    };
    let host = host.filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| unknown(COORDINATOR, "the name or IP address of its host"))?;
    let port = match (get(COORDINATOR_PORT), rank.launcher) {
        (Some(port), _) => Some(parsed(COORDINATOR_PORT, &port)?),
        (None, Launcher::Torchrun) => after_master_port(get)?,
        (None, Launcher::Srun) => SlurmStep::from_variables(get)?.map(port_of_step),
        (None, _) => None,
    };
    let port = port.filter(|&port| port > 0);
    let port = port.ok_or_else(|| unknown(COORDINATOR_PORT, "a free port of its host"))?;
    Ok(CoordinatorAddress::RankZero { host, port })
}

/// Host of the first task of a step.
fn first_host(get: Lookup<'_>) -> Result<String> {
    let tasks = Allocation::from_variables(get)?.tasks;
    Ok(tasks
        .into_iter()
        .next()
        .map(|(host, _)| host)
        .unwrap_or_default())
}

/// Port after the one of torchrun's store; `None` if there is none.
fn after_master_port(get: Lookup<'_>) -> Result<Option<u16>> {
    let Some(text) = get("MASTER_PORT") else {
        return Ok(None);
    };
    Ok(parsed::<u16>("MASTER_PORT", &text)?.checked_add(1))
}

/// Port of the coordinator of a step: two jobs on one host have different ones.
fn port_of_step(SlurmStep { job, step }: SlurmStep) -> u16 {
    let number = STEPS * u64::from(job) + u64::from(step);
    (FIRST_PORT + number % PORTS) as u16
}

#[cfg(test)]
mod tests;
