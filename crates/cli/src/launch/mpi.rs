//! `thalweg launch mpi`: jobs that `mpirun` or `srun` starts.

use clap::{Args, ValueEnum};
use thalweg_launch::{
    Access, ClusterShape, HostedJob, JobExit, JobOptions, MpiJob, MpiKind, MpiOptions, slurm_hosts,
};

use super::explain::done;
use super::host_flags::HostFlags;
use super::job_flags::{AddressFlags, TaskFlags};
use super::shape_flags::ShapeFlags;
use crate::failure::Failure;

/// Starts the tasks of a job by mpirun, or by srun: ranks (--np), or parameter servers and workers. --explain prints the command.
/// The exit status is that of mpirun.
///
/// mpirun starts a member for each task (`thalweg launch member`), which becomes the program. Members know their ranks by MPI's
/// variables. All hosts have this program and the one of the tasks at the same paths. Tasks of other hosts get the launcher's
/// variables that begin with HOROVOD_ or THALWEG_. Without hosts, all tasks run on this one, on those of a job of PBS, LSF or
/// Grid Engine, or, with --mpi srun, on those of the allocation. Hosts, ports and networks are not checked before the start.
#[derive(Args)]
pub(super) struct Mpi {
    /// The MPI that starts the tasks.
    #[arg(long, value_name = "KIND", default_value = "auto")]
    mpi: MpiName,
    /// The mpirun, or the path of one; with --mpi srun, the srun.
    #[arg(long, value_name = "PROGRAM")]
    mpirun: Option<String>,
    /// More options of mpirun, separated by blanks, such as '--oversubscribe'. May be given several times.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    mpirun_args: Vec<String>,
    /// Carrier of the values of ranks: TCP, or the MPI with which the program was built (feature `mpi`).
    #[arg(long, value_name = "CARRIER", default_value = "tcp")]
    carrier: Carrier,
    #[command(flatten)]
    hosts: HostFlags,
    #[command(flatten)]
    shape: ShapeFlags,
    #[command(flatten)]
    tasks: TaskFlags,
    #[command(flatten)]
    addresses: AddressFlags,
    /// The program of all tasks, and its arguments. A name without a folder is that of a program beside this one, or on the
    /// PATH.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// MPI that starts the tasks.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MpiName {
    /// The one that `mpirun --version` tells.
    Auto,
    /// Open MPI.
    Openmpi,
    /// MPICH, Intel MPI, and others with the launcher Hydra.
    Mpich,
    /// Slurm: srun --mpi=pmi2.
    Srun,
}

/// Carrier of the values of ranks.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Carrier {
    /// Connections between the ranks, which meet at rank 0.
    Tcp,
    /// MPI.
    Mpi,
}

impl Mpi {
    pub(super) fn run(&self) -> Result<JobExit, Failure> {
        if self.shape.restarts.times > 0 {
            return Err("--restarts: mpirun ends all tasks when one fails: use `launch ssh` or `launch slurm`".into());
        }
        if self.tasks.metrics {
            return Err(
                "--metrics: tasks that mpirun starts have none: use `launch ssh` or `launch slurm`"
                    .into(),
            );
        }
        let is_srun = self.mpi == MpiName::Srun;
        let named = match is_srun {
            true => self.hosts.given()?,
            false => self.hosts.given_or_of_batch_job()?,
        };
        let is_here = named.is_none() && !is_srun;
        let shape = self.shape.shape(match is_here {
            true => ClusterShape {
                workers: Some(1),
                servers_per_host: usize::MAX,
                workers_per_host: Some(usize::MAX),
                ..ClusterShape::default()
            },
            false => ClusterShape::default(),
        });
        let hosts = match named {
            Some(hosts) => hosts,
            None if is_srun => slurm_hosts(&|name| std::env::var(name).ok(), &shape)?,
            None => Vec::new(),
        };
        let options = self.tasks.options(self.shape.is_ranks())?;
        let job = HostedJob {
            shape,
            hosts,
            access: match self.mpi {
                MpiName::Srun => Access::Srun,
                _ => Access::Ssh { program: None },
            },
            options: self.addresses.add_to(JobOptions {
                free_ports: self.shape.free_ports,
                ..options
            })?,
            command: self.command.clone(),
        };
        let words = self.mpirun_args.iter().flat_map(|a| a.split_whitespace());
        let job = MpiJob {
            job,
            mpi: MpiOptions {
                kind: match self.mpi {
                    MpiName::Auto => None,
                    MpiName::Openmpi => Some(MpiKind::OpenMpi),
                    MpiName::Mpich => Some(MpiKind::Hydra),
                    MpiName::Srun => Some(MpiKind::Srun),
                },
                program: self.mpirun.clone(),
                args: words.map(str::to_owned).collect(),
                mpi_values: self.carrier == Carrier::Mpi,
            },
        };
        match self.tasks.explain.is_wanted() {
            true => {
                let plan = job.plan()?;
                self.tasks.explain.show_mpi(&plan).map(|()| done())
            }
            false => Ok(job.run()?),
        }
    }
}
