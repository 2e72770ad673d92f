//! Launchers, and the names of their variables.

use std::fmt;

/// Launcher of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Launcher {
    /// PyTorch's torchrun, or another program that sets its variables.
    Torchrun,
    /// Horovod's launcher, or `thalweg launch hvd`.
    Horovod,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpirun` or `mpirun_rsh` of MVAPICH.
    Mvapich,
    /// `mpiexec` of Cray PALS.
    Pals,
    /// Hydra: `mpirun` of MPICH or Intel MPI.
    Hydra,
    /// `srun` of Slurm.
    Srun,
    /// `flux run` or `flux submit`.
    Flux,
    /// `jsrun` of IBM LSF.
    Jsrun,
    /// An indexed Job of Kubernetes.
    Kubernetes,
}

impl Launcher {
    /// `true` for launchers of MPI programs: MPI knows the rank too.
    pub fn is_mpi(self) -> bool {
        use Launcher::{Hydra, Jsrun, Mvapich, OpenMpi, Pals};
        matches!(self, OpenMpi | Mvapich | Pals | Hydra | Jsrun)
    }
}

impl fmt::Display for Launcher {
    /// Writes the command that starts a job.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Torchrun => "torchrun",
            Launcher::Horovod => "`thalweg launch hvd`",
            Launcher::OpenMpi => "mpirun (Open MPI)",
            Launcher::Mvapich => "mpirun (MVAPICH)",
            Launcher::Pals => "mpiexec (PALS)",
            Launcher::Hydra => "mpirun (MPICH)",
            Launcher::Srun => "srun",
            Launcher::Flux => "flux run",
            Launcher::Jsrun => "jsrun",
            Launcher::Kubernetes => "an indexed Job of Kubernetes",
        })
    }
}

/// Names of the variables of a launcher. A process has the launcher if `rank` is set.
pub(crate) struct Names {
    pub(crate) launcher: Launcher,
    pub(crate) rank: &'static str,
    pub(crate) size: &'static str,
    pub(crate) local_rank: Option<&'static str>,
    pub(crate) local_size: Option<&'static str>,
}

const fn names(
    launcher: Launcher,
    [rank, size]: [&'static str; 2],
    local_rank: Option<&'static str>,
    local_size: Option<&'static str>,
) -> Names {
    Names {
        launcher,
        rank,
        size,
        local_rank,
        local_size,
    }
}

/// Launchers that may run within a job of MPI or Slurm.
pub(crate) const TORCHRUN_AND_HOROVOD: [Names; 2] = [
    names(
        Launcher::Torchrun,
        ["RANK", "WORLD_SIZE"],
        Some("LOCAL_RANK"),
        Some("LOCAL_WORLD_SIZE"),
    ),
    names(
        Launcher::Horovod,
        ["HOROVOD_RANK", "HOROVOD_SIZE"],
        Some("HOROVOD_LOCAL_RANK"),
        Some("HOROVOD_LOCAL_SIZE"),
    ),
];

/// Launchers of MPI with variables of their own.
pub(crate) const MPI: [Names; 3] = [
    names(
        Launcher::OpenMpi,
        ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
        Some("OMPI_COMM_WORLD_LOCAL_RANK"),
        Some("OMPI_COMM_WORLD_LOCAL_SIZE"),
    ),
    names(
        Launcher::Mvapich,
        ["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"],
        Some("MV2_COMM_WORLD_LOCAL_RANK"),
        Some("MV2_COMM_WORLD_LOCAL_SIZE"),
    ),
    names(
        Launcher::Pals,
        ["PALS_RANKID", "PMI_SIZE"],
        Some("PALS_LOCAL_RANKID"),
        Some("PALS_LOCAL_SIZE"),
    ),
];

/// Variables of PMI, as Hydra sets them.
pub(crate) const PMI: Names = names(
    Launcher::Hydra,
    ["PMI_RANK", "PMI_SIZE"],
    Some("MPI_LOCALRANKID"),
    Some("MPI_LOCALNRANKS"),
);

/// Variables of a task of a step.
pub(crate) const SRUN: Names = names(
    Launcher::Srun,
    ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS"],
    Some("SLURM_LOCALID"),
    None,
);

/// Launchers that come after those of MPI and Slurm.
pub(crate) const OTHERS: [Names; 3] = [
    names(
        Launcher::Flux,
        ["FLUX_TASK_RANK", "FLUX_JOB_SIZE"],
        Some("FLUX_TASK_LOCAL_ID"),
        None,
    ),
    names(
        Launcher::Jsrun,
        ["JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"],
        Some("JSM_NAMESPACE_LOCAL_RANK"),
        Some("JSM_NAMESPACE_LOCAL_SIZE"),
    ),
    names(
        Launcher::Kubernetes,
        ["JOB_COMPLETION_INDEX", crate::variables::JOB_SIZE],
        None,
        None,
    ),
];
