//! `thalweg launch local`: jobs on this machine.

use clap::Args;
use thalweg_launch::{Access, ClusterShape, HostedJob, JobExit, JobOptions, JobShape};

use super::explain::run_or_explain;
use super::job_flags::{RestartFlags, TaskFlags};
use crate::failure::Failure;

/// Starts every task on this machine: PROGRAM ARGS --job_name JOB --task_index N --ps_hosts ...
/// --worker_hosts .... Their output is shown with their names before it; beneath it is the progress of
/// each task, as far as its lines have it: "step 120" and "812 images/s".
///
/// The training ends when all workers have. The exit status is that of the first task that failed, 128 and the number of
/// the signal that ended the launch, or 74 if all tasks are done and lines of theirs could not be written.
///
/// SIGTERM, SIGINT and SIGHUP are passed on as SIGTERM; a second one kills all tasks. On Linux, tasks are killed when the
/// launcher is. Give it programs, or scripts that end in `exec`: a child of a script survives if both are killed.
#[derive(Args)]
pub(super) struct Local {
    /// Number of ranks, in place of a cluster: processes as of `launch hvd`.
    #[arg(short = 'n', long = "np", value_name = "RANKS", conflicts_with_all = ["ps", "workers"],
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ranks: Option<u32>,
    /// Number of parameter servers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    ps: u32,
    /// Number of workers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    workers: u32,
    /// Takes free ports; without it, servers listen from 2230 on and workers from 2220 on, past ports that are taken.
    #[arg(long)]
    free_ports: bool,
    #[command(flatten)]
    restarts: RestartFlags,
    #[command(flatten)]
    tasks: TaskFlags,
    /// The program of all tasks, and its arguments. A name without a folder is that of a program beside this one, or on
    /// the PATH.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Local {
    pub(super) fn run(&self) -> Result<JobExit, Failure> {
        let shape = match self.ranks {
            Some(ranks) => JobShape::Ranks(ranks as usize),
            None => JobShape::Cluster(ClusterShape {
                servers: self.ps as usize,
                workers: Some(self.workers as usize),
                servers_per_host: usize::MAX,
                workers_per_host: Some(usize::MAX),
                servers_beside_workers: true,
            }),
        };
        let job = HostedJob {
            shape,
            hosts: Vec::new(),
            access: Access::Ssh { program: None },
            options: JobOptions {
                restarts: self.restarts.times,
                free_ports: self.free_ports,
                ..self.tasks.options(self.ranks.is_some())?
            },
            command: self.command.clone(),
        };
        run_or_explain(&job, &self.tasks.explain)
    }
}
