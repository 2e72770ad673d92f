//! `thalweg launch`: flags of the jobs of `thalweg-launch`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use thalweg_collective::variables;
use thalweg_launch::{
    ElasticJob, HostOptions, HostSlots, JobExit, LocalCluster, RankJob, WRITE_TIMEOUT,
};

use crate::failure::Failure;
use crate::output;

/// Starts the tasks of a cluster, and ends them together.
#[derive(Args)]
pub struct LaunchArgs {
    #[command(subcommand)]
    command: LaunchCommand,
}

#[derive(Subcommand)]
enum LaunchCommand {
    Local(Local),
    Hvd(Hvd),
}

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
struct Local {
    /// Number of parameter servers.
    #[arg(long, default_value_t = 1)]
    ps: usize,
    /// Number of workers.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Takes free ports; without it, servers listen from 2230 on and workers from 2220 on.
    #[arg(long)]
    free_ports: bool,
    /// Seconds that a task may take to end after SIGTERM; then it is killed.
    #[arg(long, default_value_t = 30, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    grace: u32,
    /// Starts a task that has failed again, up to so many times each, after 1, 2, 4 ... seconds. Use it with programs that
    /// restore a checkpoint.
    #[arg(long, default_value_t = 0, value_name = "TIMES")]
    restarts: u32,
    /// The program of all tasks, and its arguments. A name without a folder is that of a program beside this one, or on
    /// the PATH.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Replaces `-np` of horovodrun and mpirun by `--np` in the arguments of this program: clap knows short flags of one letter.
pub(crate) fn accept_np_flag(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut own, mut launches, mut value) = (true, false, false);
    let changed = args.enumerate().map(|(at, arg)| {
        launches |= at == 1 && arg == "launch";
        let text = arg.to_string_lossy().into_owned();
        // Arguments after the name of a launched program are that program's. An argument after a flag may be its value.
        own &= !launches || at < 3 || value || text.starts_with('-') || text.parse::<u32>().is_ok();
        own &= text != "--";
        value = text.starts_with('-');
        if own && arg == "-np" {
            "--np".into()
        } else {
            arg
        }
    });
    changed.collect()
}

/// Starts the ranks of a job, on this machine or on several. Each has HOROVOD_RANK, HOROVOD_SIZE, HOROVOD_LOCAL_RANK and
/// HOROVOD_LOCAL_SIZE in its environment, and the address of the launcher. `thalweg::hvd` reads them.
///
/// The exit status is that of the first rank that failed, of which the failures of others are consequences. Signals, output and the end of all are as of `launch local`.
#[derive(Args)]
struct Hvd {
    /// Number of ranks. `-np 2`, as of horovodrun, is the same.
    #[arg(short = 'n', long = "np", value_name = "RANKS",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ranks: u32,
    /// Seconds that a rank may take to end after SIGTERM; then it is killed.
    #[arg(long, default_value_t = 30, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    grace: u32,
    #[command(flatten)]
    hosts: HostFlags,
    /// Writes the waits, copies and reductions of all ranks' collectives to this file: Perfetto shows it, a process for each
    /// rank.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Ranks and the launcher communicate over TLS, with the keys of a folder that `thalweg protect DIR 127.0.0.1` has made. Without
    /// it, the variable THALWEG_PROTECTION names the folder.
    #[arg(long, value_name = "DIR")]
    protection: Option<PathBuf>,
    /// Goes on with as few ranks as this when others are lost (1). With this option, and with each of those that follow,
    /// ranks may come and go: the program uses `thalweg::hvd::elastic`.
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    min_np: Option<u32>,
    /// Lets in ranks up to so many, if a host discovery script names slots for them.
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    max_np: Option<u32>,
    /// A program that prints lines of host:slots. It is run every second; workers are started and told to leave accordingly.
    /// Hosts are localhost, 127.* and the name of this one.
    #[arg(long, value_name = "PROGRAM")]
    host_discovery_script: Option<String>,
    /// Number of times that ranks may be lost or let in until the job ends.
    #[arg(long, value_name = "ROUNDS")]
    reset_limit: Option<u32>,
    /// Seconds to wait for enough workers (600).
    #[arg(long, value_name = "SECONDS")]
    elastic_timeout: Option<u32>,
    /// Seconds for which a host starts no worker after one of it has failed: at first, and at most (10 600). It doubles each
    /// time.
    #[arg(long, num_args = 2, value_names = ["LEAST", "MOST"])]
    blacklist_cooldown_range: Option<Vec<u32>>,
    /// The program of all ranks, and its arguments. A name without a folder is that of a program beside this one, or on the
    /// PATH.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Hosts of the ranks, and access to them.
#[derive(Args)]
struct HostFlags {
    /// Hosts and how many ranks each may have: host1:2,host2:2. Ranks of other hosts than this one are started by ssh, in a
    /// folder of the same name, with the same program. Without it all ranks run here.
    #[arg(
        short = 'H',
        long,
        value_name = "HOST:RANKS,...",
        value_delimiter = ','
    )]
    hosts: Vec<HostSlots>,
    /// The address of this host that ranks of others reach. Without it, the one from which the first of them is reached.
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// Program that starts a command on another host: it is given the name of the host and a line of a shell.
    #[arg(long, default_value = "ssh", value_name = "PROGRAM")]
    ssh: String,
    /// Allows ranks of several hosts without --protection, over a network that you trust.
    #[arg(long)]
    unprotected_network: bool,
}

impl LaunchArgs {
    /// Runs until all tasks have ended.
    pub fn run(&self) -> ExitCode {
        let exit = match &self.command {
            LaunchCommand::Local(local) => local.run(),
            LaunchCommand::Hvd(hvd) => hvd.run(),
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

impl Local {
    fn run(&self) -> Result<JobExit, Failure> {
        let cluster = LocalCluster {
            servers: self.ps,
            workers: self.workers,
            free_ports: self.free_ports,
            grace: seconds(self.grace),
            restarts: self.restarts,
            command: self.command.clone(),
        };
        Ok(cluster.run()?)
    }
}

impl Hvd {
    /// `true` if a flag of elastic jobs is given.
    fn is_elastic(&self) -> bool {
        self.min_np.is_some()
            || self.max_np.is_some()
            || self.host_discovery_script.is_some()
            || self.reset_limit.is_some()
            || self.elastic_timeout.is_some()
            || self.blacklist_cooldown_range.is_some()
    }

    fn run(&self) -> Result<JobExit, Failure> {
        // Ranks inherit the variable too.
        let set = || std::env::var_os(variables::PROTECTION).map(PathBuf::from);
        let protection = self.protection.clone().or_else(set);
        if !self.is_elastic() {
            let job = RankJob {
                ranks: self.ranks as usize,
                grace: seconds(self.grace),
                hosts: HostOptions {
                    hosts: self.hosts.hosts.clone(),
                    address: self.hosts.address,
                    ssh: self.hosts.ssh.clone(),
                    unprotected_network: self.hosts.unprotected_network,
                },
                trace: self.trace.clone(),
                protection,
                command: self.command.clone(),
            };
            return Ok(job.run()?);
        }
        if self.trace.is_some() {
            let why = "--trace is of ranks that stay: of ranks that come and go, set THALWEG_TRACE to a file, and each \
                       rank of each round writes one of its own";
            return Err(why.into());
        }
        if !self.hosts.hosts.is_empty() {
            let why = "-H is of ranks that stay: a host discovery script names the hosts of ranks that come and go";
            return Err(why.into());
        }
        let cooldown = match self.blacklist_cooldown_range.as_deref() {
            Some(&[min, max]) => [min, max],
            _ => [10, 600],
        };
        let job = ElasticJob {
            ranks: self.ranks as usize,
            min_ranks: self.min_np.map(|n| n as usize),
            max_ranks: self.max_np.map(|n| n as usize),
            discovery_script: self.host_discovery_script.clone(),
            reset_limit: self.reset_limit.map(u64::from),
            timeout: seconds(self.elastic_timeout.unwrap_or(600)),
            cooldown: cooldown.map(seconds),
            grace: seconds(self.grace),
            protection,
            command: self.command.clone(),
        };
        Ok(job.run()?)
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

#[cfg(test)]
mod tests {
    use super::accept_np_flag;

    fn changed(line: &str) -> String {
        let args = line.split(' ').map(Into::into);
        let all = accept_np_flag(args).into_iter();
        let all: Vec<String> = all.map(|a| a.into_string().unwrap()).collect();
        all.join(" ")
    }

    #[test]
    fn np_is_replaced_before_the_launched_program_and_kept_after_it() {
        let lines = [
            (
                "thalweg launch hvd -np 2 -- a -np 3",
                "thalweg launch hvd --np 2 -- a -np 3",
            ),
            (
                "thalweg launch hvd --grace 5 -np 2 a -np 3",
                "thalweg launch hvd --grace 5 --np 2 a -np 3",
            ),
            (
                "thalweg bench allreduce --engine tcp -np 3",
                "thalweg bench allreduce --engine tcp --np 3",
            ),
            (
                "thalweg launch hvd -H a:2,b:2 -np 4 a -np 3",
                "thalweg launch hvd -H a:2,b:2 --np 4 a -np 3",
            ),
            ("thalweg run -np", "thalweg run --np"),
        ];
        for (given, expected) in lines {
            assert_eq!(changed(given), expected);
        }
    }
}
