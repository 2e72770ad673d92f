//! Identity of a process by the variables of its launcher: its rank, or its task in a cluster.

use crate::error::EnvError;
use crate::launcher::{Launcher, MPI, Names, OTHERS, PMI, SRUN, TORCHRUN_AND_HOROVOD};
use crate::slurm::{SlurmStep, tasks_of_this_node};
use crate::tf_config::TfConfig;
use crate::variables::{self, Lookup};

type Result<T> = std::result::Result<T, EnvError>;

/// Maximum number of ranks.
const MAX_RANKS: usize = 1 << 20;

/// Identity of a process: the launcher that has started it, and its place in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchedProcess {
    /// No launcher has started the process, or it is the only one of its job that has been started.
    Alone,
    /// A task of a cluster, described by `TF_CONFIG`.
    Task(TfConfig),
    /// A rank.
    Rank(LaunchedRank),
}

impl LaunchedProcess {
    /// Reads variables of launchers, in this order; the first launcher found counts:
    ///
    /// 1. `TF_CONFIG`
    /// 2. those of [`LaunchedRank::from_variables`]
    ///
    /// # Errors
    /// As [`LaunchedRank::from_variables`]; `TF_CONFIG` cannot be read.
    pub fn from_variables(get: Lookup<'_>) -> Result<LaunchedProcess> {
        if let Some(text) = get(variables::TF_CONFIG) {
            return Ok(LaunchedProcess::Task(TfConfig::parse(&text)?));
        }
        let rank = LaunchedRank::from_variables(get)?;
        Ok(rank.map_or(LaunchedProcess::Alone, LaunchedProcess::Rank))
    }
}

/// Rank of a process, as its launcher has set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchedRank {
    /// Launcher of the rank.
    pub launcher: Launcher,
    /// The rank.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
    /// Number of the rank among those of its host, if the launcher tells it.
    pub local_rank: Option<usize>,
    /// Number of ranks of its host, if the launcher tells it.
    pub local_size: Option<usize>,
}

impl LaunchedRank {
    /// Reads variables of launchers, in this order; the first launcher found counts:
    ///
    /// 1. torchrun
    /// 2. Horovod, and `thalweg launch hvd`
    /// 3. Open MPI
    /// 4. MVAPICH
    /// 5. Cray PALS
    /// 6. MPICH and Intel MPI (Hydra)
    /// 7. srun
    /// 8. Flux
    /// 9. jsrun (LSF)
    /// 10. an indexed Job of Kubernetes, if `THALWEG_JOB_SIZE` has its number of completions
    ///
    /// A process that `mpirun` starts within a Slurm job has the variables of both; those of `srun` count the processes that
    /// start ranks. MVAPICH and PALS set MPICH's variables too. So does `srun --mpi=pmi2`: its ranks are those of srun.
    /// `None` if there is no launcher.
    ///
    /// # Errors
    /// A launcher's variables contradict each other: a rank that is not below the number of ranks, a rank without that number,
    /// or a text that is no number.
    pub fn from_variables(get: Lookup<'_>) -> Result<Option<LaunchedRank>> {
        let step = SlurmStep::from_variables(get)?;
        let by_srun = step.is_some();
        for names in TORCHRUN_AND_HOROVOD.iter().chain(&MPI) {
            if let Some(rank) = named(names, get)? {
                return Ok(Some(rank));
            }
        }
        if !(by_srun && is_of_slurm(get))
            && let Some(rank) = named(&PMI, get)?
        {
            return Ok(Some(rank));
        }
        if by_srun {
            return of_srun(get);
        }
        for names in &OTHERS {
            if let Some(rank) = named(names, get)? {
                return Ok(Some(rank));
            }
        }
        match get("PMIX_RANK") {
            Some(_) => Err(EnvError::SizeUnknown { name: "PMIX_RANK" }),
            None => Ok(None),
        }
    }

    /// `true` if all ranks are known to be on one host.
    pub fn is_on_one_host(&self) -> bool {
        self.local_size == Some(self.size)
    }
}

/// `true` if PMI's variables are those of Slurm's own PMI: Hydra's processes also have their local rank.
fn is_of_slurm(get: Lookup<'_>) -> bool {
    let same = |one: Option<&str>, other: Option<&str>| {
        let [one, other] = [one, other].map(|name| name.and_then(get));
        one.is_some() && one == other
    };
    PMI.local_size.and_then(get).is_none()
        && same(Some(PMI.rank), Some(SRUN.rank))
        && same(Some(PMI.size), Some(SRUN.size))
}

/// Reads the variables of a launcher; `None` if its rank is not set.
fn named(names: &Names, get: Lookup<'_>) -> Result<Option<LaunchedRank>> {
    let launcher = names.launcher;
    let number = |name: &'static str| -> Result<Option<usize>> {
        let Some(value) = get(name) else {
            return Ok(None);
        };
        match value.trim().parse() {
            Ok(number) if number < MAX_RANKS => Ok(Some(number)),
            _ => Err(EnvError::NotANumber {
                name,
                value,
                launcher,
            }),
        }
    };
    let size = match (get(names.rank), number(names.size)?) {
        (None, _) => return Ok(None),
        // The number of an item of work, and no rank.
        (Some(_), None) if launcher == Launcher::Kubernetes => return Ok(None),
        (Some(_), None) => {
            return Err(EnvError::Missing {
                name: names.size,
                beside: names.rank,
                launcher,
            });
        }
        (Some(_), Some(size)) => size,
    };
    let below =
        |name: &'static str, rank: usize, (size_name, size): (&'static str, usize)| match rank
            < size
        {
            true => Ok(rank),
            false => Err(EnvError::RankOutOfRange {
                rank_name: name,
                rank,
                size_name,
                size,
                launcher,
            }),
        };
    let rank = number(names.rank)?.unwrap_or_default();
    let rank = below(names.rank, rank, (names.size, size))?;
    let local = |name: Option<&'static str>| name.map(number).transpose().map(Option::flatten);
    let (local_rank, local_size) = (local(names.local_rank)?, local(names.local_size)?);
    if let (Some(own), Some(all)) = (local_rank, local_size) {
        let name = |name: Option<&'static str>| name.unwrap_or_default();
        below(name(names.local_rank), own, (name(names.local_size), all))?;
    }
    Ok(Some(LaunchedRank {
        launcher,
        rank,
        size,
        local_rank,
        local_size,
    }))
}

/// Reads the variables of a step of srun. Slurm has no variable for the number of tasks of this host.
fn of_srun(get: Lookup<'_>) -> Result<Option<LaunchedRank>> {
    let Some(rank) = named(&SRUN, get)? else {
        return Ok(None);
    };
    Ok(Some(LaunchedRank {
        local_size: tasks_of_this_node(get)?,
        ..rank
    }))
}

#[cfg(test)]
mod tests;
