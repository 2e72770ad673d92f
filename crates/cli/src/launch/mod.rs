//! `thalweg launch`: flags of the jobs of `thalweg-launch`.

mod elastic_flags;
mod explain;
mod hvd;
mod job_flags;
mod k8s;
mod local;
mod mpi;
mod np_flag;
mod shape_flags;
mod slurm;
mod ssh;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use thalweg_launch::{JobExit, WRITE_TIMEOUT, run_agent, run_member};

use crate::failure::Failure;
use crate::output;
use explain::done;
pub(crate) use np_flag::accept_np_flag;

/// Starts the tasks of a job, and ends them together.
#[derive(Args)]
pub struct LaunchArgs {
    #[command(subcommand)]
    command: LaunchCommand,
}

#[derive(Subcommand)]
enum LaunchCommand {
    Local(local::Local),
    Ssh(ssh::Ssh),
    Slurm(slurm::Slurm),
    Mpi(mpi::Mpi),
    K8s(k8s::Kubernetes),
    Hvd(hvd::Hvd),
    /// Serves a launcher on standard input and standard output: a launcher runs it on each of its hosts.
    #[command(hide = true)]
    Agent,
    /// Becomes a program as one task of a job: `mpirun` runs it for each task.
    #[command(hide = true)]
    Member {
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

impl LaunchArgs {
    /// Runs until all tasks have ended.
    pub fn run(&self) -> ExitCode {
        let exit = match &self.command {
            LaunchCommand::Local(local) => local.run(),
            LaunchCommand::Ssh(ssh) => ssh.run(),
            LaunchCommand::Slurm(slurm) => slurm.run(),
            LaunchCommand::Mpi(mpi) => mpi.run(),
            LaunchCommand::K8s(kubernetes) => kubernetes.run(),
            LaunchCommand::Hvd(hvd) => hvd.run(),
            LaunchCommand::Agent => run_agent().map(|()| done()).map_err(Failure::from),
            LaunchCommand::Member { command } => match run_member(command) {
                Ok(code) => return ExitCode::from(code),
                Err(error) => Err(error.into()),
            },
        };
        match exit {
            Ok(JobExit { code, messages }) => {
                for line in messages {
                    output::error_within(WRITE_TIMEOUT, line);
                }
                ExitCode::from(code)
            }
            Err(failure) => {
                output::error(format_args!("error: {failure}"));
                ExitCode::FAILURE
            }
        }
    }
}
