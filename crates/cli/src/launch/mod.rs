//! `thalweg launch`: flags of the jobs of `thalweg-launch`.

mod elastic_flags;
mod explain;
mod host_flags;
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
use thalweg_launch::{JobExit, WRITE_TIMEOUT, run_agent, run_guard, run_member, run_reaper};

use crate::failure::Failure;
use crate::output;
pub(crate) use explain::done;
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
    /// Runs a service, and ends all of its processes when this one ends: a launcher runs it for a notebook server.
    #[command(hide = true)]
    Guard {
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Runs a service until standard input ends: a guard runs it.
    #[command(hide = true)]
    Reaper {
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
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
            LaunchCommand::Guard { command } => code_of(run_guard(command)),
            LaunchCommand::Reaper { command } => code_of(run_reaper(command)),
            LaunchCommand::Member { command } => code_of(run_member(command)),
        };
        report(exit)
    }
}

/// End of a program that has shown its own messages.
fn code_of(ended: thalweg_launch::Result<u8>) -> Result<JobExit, Failure> {
    let exit = |code| JobExit { code, ..done() };
    ended.map(exit).map_err(Failure::from)
}

/// Shows the messages of a job that has ended, and returns its exit code.
pub(crate) fn report(exit: Result<JobExit, Failure>) -> ExitCode {
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
