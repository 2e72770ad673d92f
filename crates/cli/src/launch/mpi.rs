//! `thalweg launch mpi`: jobs that `mpirun` or `srun` starts.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thalweg_launch::{
    Access, ClusterShape, HostedJob, JobExit, JobHost, JobOptions, MpiJob, MpiKind, MpiOptions,
    slurm_hosts,
};

use super::explain::done;
use super::job_flags::{AddressFlags, TaskFlags};
use super::shape_flags::ShapeFlags;
use crate::failure::Failure;

/// Starts the tasks of a job by mpirun, or by srun: ranks (--np), or parameter servers and workers. --explain prints the command.
/// The exit status is that of mpirun.
///
/// mpirun starts a member for each task (`thalweg launch member`), which becomes the program. Members know their ranks by MPI's
/// variables. All hosts have this program and the one of the tasks at the same paths. Tasks of other hosts get the launcher's
/// variables that begin with HOROVOD_ or THALWEG_. Hosts, ports and networks are not checked before the start.
#[derive(Args)]
pub(super) struct Mpi {
    /// The MPI that starts the tasks.
    #[arg(long, value_name = "KIND", default_value = "auto")]
    mpi: Kind,
    /// The mpirun, or the path of one; with --mpi srun, the srun.
    #[arg(long, value_name = "PROGRAM")]
    mpirun: Option<String>,
    /// More options of mpirun, separated by blanks, such as '--oversubscribe'. May be given several times.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    mpirun_args: Vec<String>,
    /// Carrier of the values of ranks: TCP, or the MPI with which the program was built (feature `mpi`).
    #[arg(long, value_name = "CARRIER", default_value = "tcp")]
    carrier: Carrier,
    /// File of hosts, as of `launch ssh --hosts`. Without hosts, all tasks run on this one; with --mpi srun, on those of the
    /// allocation.
    #[arg(long, alias = "hostfile", value_name = "FILE", conflicts_with = "list")]
    hosts: Option<PathBuf>,
    /// Hosts and their slots: host1:2,host2:2.
    #[arg(
        short = 'H',
        long = "host",
        value_name = "HOST:SLOTS,...",
        value_delimiter = ','
    )]
    list: Vec<JobHost>,
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
enum Kind {
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
        if self.shape.restarts > 0 {
            return Err("--restarts: mpirun ends all tasks when one fails".into());
        }
        if self.tasks.metrics {
            return Err("--metrics: tasks that mpirun starts have none".into());
        }
        let is_here = self.hosts.is_none() && self.list.is_empty() && self.mpi != Kind::Srun;
        let shape = self.shape.shape(match is_here {
            true => ClusterShape {
                workers: Some(1),
                servers_per_host: usize::MAX,
                workers_per_host: Some(usize::MAX),
                ..ClusterShape::default()
            },
            false => ClusterShape::default(),
        });
        let hosts = match &self.hosts {
            Some(path) => JobHost::read_file(path)?,
            None if self.list.is_empty() && !is_here => {
                slurm_hosts(&|name| std::env::var(name).ok(), &shape)?
            }
            None => self.list.clone(),
        };
        let options = self.tasks.options(self.shape.is_ranks())?;
        let job = HostedJob {
            shape,
            hosts,
            access: match self.mpi {
                Kind::Srun => Access::Srun,
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
                    Kind::Auto => None,
                    Kind::Openmpi => Some(MpiKind::OpenMpi),
                    Kind::Mpich => Some(MpiKind::Hydra),
                    Kind::Srun => Some(MpiKind::Srun),
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
