//! Flags that jobs on one host and on several have.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_collective::variables;
use thalweg_launch::{JobOptions, Sharing};

use super::explain::Explain;
use crate::failure::Failure;

/// Flags of the tasks of a job.
#[derive(Args)]
pub(super) struct TaskFlags {
    /// Seconds that a task may take to end after SIGTERM; then it is killed.
    #[arg(long, default_value_t = 30, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) grace: u32,
    /// Writes the output of each task to a file in this folder too: worker-0.log.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Sets a variable of all tasks; without a value, to that of the launcher. May be given several times.
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Cores of a task: all of its host, or an even share, without parts of several NUMA nodes where it can be avoided.
    #[arg(long, value_name = "KIND", default_value = "none")]
    bind: Bind,
    /// GPUs of a worker or rank: all of its host, or an even share. Workers get a share, and ranks see all, unless told
    /// otherwise: a rank chooses by its local number. Parameter servers see none.
    #[arg(long, value_name = "KIND")]
    gpus: Option<Gpus>,
    /// Servers and workers serve their metrics at ports from 9100 on, or at free ones; a line says at which, for `thalweg top`.
    /// The program's server takes the address from THALWEG_METRICS, as `ServerOptions::launched` does.
    #[arg(long)]
    pub(super) metrics: bool,
    #[command(flatten)]
    pub(super) explain: Explain,
}

/// Restarts of the tasks of a job.
#[derive(Args)]
pub(super) struct RestartFlags {
    /// Starts a task of a cluster that has failed again, up to so many times each, after 1, 2, 4 ... seconds. When a rank fails
    /// or its host is lost, starts all ranks again, up to so many times; THALWEG_RESTART is the number of the restart. Use it
    /// with programs that restore a checkpoint. `--max-restarts`, as of torchrun, is the same.
    #[arg(
        long = "restarts",
        alias = "max-restarts",
        default_value_t = 0,
        value_name = "TIMES"
    )]
    pub(super) times: u32,
}

/// Cores of a task.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bind {
    /// All cores of the host.
    None,
    /// An even share.
    Cores,
}

/// GPUs of a task.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gpus {
    /// All GPUs of the host.
    All,
    /// An even share.
    Split,
}

/// Flags of jobs on several hosts, which the launcher's agents check before the start.
#[derive(Args)]
pub(super) struct NetworkFlags {
    #[command(flatten)]
    addresses: AddressFlags,
    /// Does not check before the start that all hosts reach each other.
    #[arg(long)]
    no_network_check: bool,
    /// Seconds in which all hosts answer.
    #[arg(long, default_value_t = 60, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    start_timeout: u32,
}

/// Flags of all jobs on several hosts.
#[derive(Args)]
pub(super) struct AddressFlags {
    /// Folder of keys that `thalweg protect` has made, on all hosts. Ranks and the launcher communicate over TLS. Tasks get
    /// the folder as the variable THALWEG_PROTECTION. Without this flag, that variable names the folder.
    #[arg(long, value_name = "DIR")]
    protection: Option<PathBuf>,
    /// Allows tasks on several hosts without --protection, over a network that you trust. Tasks are told by the variable
    /// THALWEG_UNPROTECTED_NETWORK.
    #[arg(long)]
    unprotected_network: bool,
    /// The address of this host that tasks of others reach. Without it, the one from which the first of them is reached.
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// Path of the program thalweg on the other hosts. Without it, that of this one.
    #[arg(long, value_name = "PATH")]
    agent: Option<String>,
}

impl TaskFlags {
    /// Options of a job of ranks, or of a cluster.
    ///
    /// # Errors
    /// A variable is not set; ranks are to have metrics.
    pub(super) fn options(&self, is_ranks: bool) -> Result<JobOptions, Failure> {
        if self.metrics && is_ranks {
            return Err("--metrics: only servers and workers have metrics, and ranks have none: leave it out".into());
        }
        Ok(JobOptions {
            metrics: self.metrics,
            grace: seconds(self.grace),
            output_dir: self.output_dir.clone(),
            env: variables_of(&self.env)?,
            sharing: Sharing {
                split_gpus: self.gpus.map_or(!is_ranks, |gpus| gpus == Gpus::Split),
                bind_cores: self.bind == Bind::Cores,
            },
            protection: protection_variable(),
            ..JobOptions::default()
        })
    }
}

impl NetworkFlags {
    /// Adds these flags to the options of a job.
    ///
    /// # Errors
    /// The path of this program is unknown.
    pub(super) fn add_to(&self, options: JobOptions) -> Result<JobOptions, Failure> {
        Ok(JobOptions {
            check_network: !self.no_network_check,
            start_timeout: seconds(self.start_timeout),
            ..self.addresses.add_to(options)?
        })
    }
}

impl AddressFlags {
    /// Adds these flags to the options of a job.
    ///
    /// # Errors
    /// The path of this program is unknown.
    pub(super) fn add_to(&self, options: JobOptions) -> Result<JobOptions, Failure> {
        let agent = match &self.agent {
            Some(agent) => agent.clone(),
            None => std::env::current_exe()?.to_string_lossy().into_owned(),
        };
        Ok(JobOptions {
            protection: self.protection.clone().or(options.protection),
            unprotected_network: self.unprotected_network,
            address: self.address,
            agent,
            ..options
        })
    }
}

/// Variables by the values of a flag `--env`.
///
/// # Errors
/// A text has no name; a variable is not set.
pub(super) fn variables_of(flags: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let set = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) => Err(Failure::from(format!(
            "--env {text}: a variable has a name"
        ))),
        None => match std::env::var(text) {
            Ok(value) => Ok((text.clone(), value)),
            Err(e) => Err(format!("--env {text}: {e}: give --env {text}=VALUE").into()),
        },
    };
    flags.iter().map(set).collect()
}

/// Folder of keys that the environment names. Ranks inherit the variable too.
fn protection_variable() -> Option<PathBuf> {
    std::env::var_os(variables::PROTECTION).map(PathBuf::from)
}

pub(super) fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}
