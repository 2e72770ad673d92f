//! `thalweg launch hvd`: ranks, fixed or elastic.

use std::path::PathBuf;

use clap::Args;
use thalweg_launch::{Access, ElasticJob, HostedJob, JobExit, JobHost, JobOptions, JobShape};

use super::explain::run_or_explain;
use super::job_flags::{NetworkFlags, TaskFlags, seconds};
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
    tasks: TaskFlags,
    #[command(flatten)]
    network: NetworkFlags,
    /// Writes the waits, copies and reductions of all ranks' collectives to this file: Perfetto shows it, a process for each
    /// rank.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
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

    pub(super) fn run(&self) -> Result<JobExit, Failure> {
        if !self.is_elastic() {
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
                    trace: self.trace.clone(),
                    ..self.network.add_to(self.tasks.options(true)?)?
                },
                command: self.command.clone(),
            };
            return run_or_explain(&job, &self.tasks.explain);
        }
        if self.tasks.explain.is_wanted() {
            return Err(
                "--explain is of ranks that stay: ranks that come and go have no fixed places"
                    .into(),
            );
        }
        if self.trace.is_some() {
            let why = "--trace is of ranks that stay: of ranks that come and go, set THALWEG_TRACE to a file, and each \
                       rank of each round writes one of its own";
            return Err(why.into());
        }
        if !self.hosts.is_empty() || self.hostfile.is_some() {
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
            grace: seconds(self.tasks.grace),
            protection: self.network.protection(),
            command: self.command.clone(),
        };
        Ok(job.run()?)
    }
}
