//! `thalweg launch ssh`: jobs on hosts that ssh reaches.

use std::path::PathBuf;

use clap::Args;
use thalweg_launch::{Access, ClusterShape, HostedJob, JobExit, JobOptions};

use super::elastic_flags::ElasticFlags;
use super::host_flags::HostFlags;
use super::job_flags::{NetworkFlags, TaskFlags};
use super::shape_flags::ShapeFlags;
use crate::failure::Failure;

/// Starts the tasks of a job on several hosts, by ssh: parameter servers and workers, or ranks (--np). Output, signals and the
/// exit status are as of `launch local`.
///
/// Each host runs one agent, which is this program (`thalweg launch agent`). The tasks run in a folder of the same name, with the
/// same program and arguments, and with the launcher's variables that begin with HOROVOD_ or THALWEG_. Before they start, the
/// hosts are checked: programs, disks, clocks, ports, and connections between all pairs.
///
/// A program of a cluster gets --job_name, --task_index, --ps_hosts and --worker_hosts, and the variable TF_CONFIG.
#[derive(Args)]
pub(super) struct Ssh {
    #[command(flatten)]
    hosts: HostFlags,
    /// Program that starts a command on another host: it is given the name of the host and a line of a shell. Without it, the
    /// system's ssh, without questions for passwords.
    #[arg(long, value_name = "PROGRAM")]
    ssh: Option<String>,
    /// Copies the program, and this one as the agent, to a folder on each other host before the start, through ssh. Tasks of
    /// these hosts run in that folder. The path is absolute.
    #[arg(long, value_name = "DIR", conflicts_with = "agent")]
    copy: Option<PathBuf>,
    #[command(flatten)]
    shape: ShapeFlags,
    #[command(flatten)]
    tasks: TaskFlags,
    #[command(flatten)]
    network: NetworkFlags,
    #[command(flatten)]
    elastic: ElasticFlags,
    /// The program of all tasks, and its arguments. A name without a folder is that of a program beside this one, or on the
    /// PATH.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Ssh {
    pub(super) fn run(&self) -> Result<JobExit, Failure> {
        let hosts = match self.elastic.has_script() {
            true => self.hosts.given()?.unwrap_or_default(),
            false => self.hosts.given_or_of_batch_job()?.ok_or(
                "no host is named: give --hosts FILE or -H HOST:SLOTS,... (in a job of PBS, LSF or Grid Engine, PBS_NODEFILE, \
                 LSB_DJOB_HOSTFILE or PE_HOSTFILE names them)",
            )?,
        };
        let options = self.tasks.options(self.shape.is_ranks())?;
        let job = HostedJob {
            shape: self.shape.shape(ClusterShape::default()),
            hosts,
            access: Access::Ssh {
                program: self.ssh.clone(),
            },
            options: self.network.add_to(JobOptions {
                restarts: self.shape.restarts.times,
                free_ports: self.shape.free_ports,
                copy: self.copy.clone(),
                ..options
            })?,
            command: self.command.clone(),
        };
        self.elastic.run_or_explain(job, &self.tasks.explain)
    }
}
