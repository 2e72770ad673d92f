//! `thalweg launch hvd`: ranks, fixed or elastic.

use std::path::PathBuf;

use clap::Args;
use thalweg_launch::{Access, HostedJob, JobExit, JobHost, JobOptions, JobShape};

use super::elastic_flags::ElasticFlags;
use super::job_flags::{NetworkFlags, RestartFlags, TaskFlags};
use crate::failure::Failure;

/// Starts the ranks of a job, on this machine or on several. Each has HOROVOD_RANK, HOROVOD_SIZE, HOROVOD_LOCAL_RANK and
/// HOROVOD_LOCAL_SIZE in its environment, and the address of the launcher. `thalweg::hvd` reads them.
///
/// The exit status is that of the first rank that failed, of which the failures of others are consequences. Signals, output and the end of all are as of `launch local`.
#[derive(Args)]
pub(super) struct Hvd {
    /// Number of ranks. `-np 2`, as of horovodrun, is the same.
    #[arg(short = 'n', long = "np", value_name = "RANKS",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ranks: u32,
    /// Hosts and how many ranks each may have: host1:2,host2:2. Ranks of other hosts than this one are started by ssh, in a
    /// folder of the same name, with the same program. Without it all ranks run here.
    #[arg(
        short = 'H',
        long,
        value_name = "HOST:RANKS,...",
        value_delimiter = ','
    )]
    hosts: Vec<JobHost>,
    /// File of hosts, as of `launch ssh --hosts`.
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<PathBuf>,
    /// Program that starts a command on another host: it is given the name of the host and a line of a shell. Without it, the
    /// system's ssh, without questions for passwords.
    #[arg(long, value_name = "PROGRAM")]
    ssh: Option<String>,
    #[command(flatten)]
    restarts: RestartFlags,
    #[command(flatten)]
    tasks: TaskFlags,
    #[command(flatten)]
    network: NetworkFlags,
    /// Writes the waits, copies and reductions of all ranks' collectives to this file: Perfetto shows it, a process for each
    /// rank.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    elastic: ElasticFlags,
    /// The program of all ranks, and its arguments. A name without a folder is that of a program beside this one, or on the
    /// PATH.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Hvd {
    pub(super) fn run(&self) -> Result<JobExit, Failure> {
        let job = HostedJob {
            shape: JobShape::Ranks(self.ranks as usize),
            hosts: match &self.hostfile {
                Some(path) => JobHost::read_file(path)?,
                None => self.hosts.clone(),
            },
            access: Access::Ssh {
                program: self.ssh.clone(),
            },
            options: JobOptions {
                restarts: self.restarts.times,
                trace: self.trace.clone(),
                ..self.network.add_to(self.tasks.options(true)?)?
            },
            command: self.command.clone(),
        };
        self.elastic.run_or_explain(job, &self.tasks.explain)
    }
}
