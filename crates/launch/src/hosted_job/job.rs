//! HostedJob: a job on hosts, and its options.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::access::Access;
use crate::error::Result;
use crate::layout::{JobHost, JobShape, Sharing};

/// Job on one or several hosts: a cluster of servers and workers, or ranks.
///
/// A task of a cluster gets its job, its number and all addresses as the flags `--job_name`, `--task_index`, `--ps_hosts` and
/// `--worker_hosts`, and in the variable `TF_CONFIG`. A rank has in its environment its number, the number of ranks, and the
/// coordinator at which they meet, which the launcher runs.
#[derive(Clone, Debug)]
pub struct HostedJob {
    /// Number and places of the tasks.
    pub shape: JobShape,
    /// Hosts; this one if there are none. Tasks run in a folder of the same name on each, with the same program.
    pub hosts: Vec<JobHost>,
    /// Access to hosts other than this one.
    pub access: Access,
    /// Options of the launch.
    pub options: JobOptions,
    /// Program of all tasks, and its arguments.
    pub command: Vec<String>,
}

/// Options of a job.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// Time that a task may take to end after SIGTERM.
    pub grace: Duration,
    /// Number of times that each task of a cluster is started again after a failure, or that all ranks are: a rank cannot join a job
    /// that has begun.
    pub restarts: u32,
    /// Folder for a file with the output of each task.
    pub output_dir: Option<PathBuf>,
    /// Variables of all tasks. Tasks of other hosts also get those of this process that begin with `HOROVOD_` or `THALWEG_`.
    pub env: Vec<(String, String)>,
    /// `true` to take random free ports in place of fixed ones.
    pub free_ports: bool,
    /// `true` for servers and workers that serve their metrics, at ports from 9100 on.
    pub metrics: bool,
    /// Division of each host's GPUs and cores among its tasks.
    pub sharing: Sharing,
    /// Folder of keys: ranks and launcher communicate over TLS. Tasks get it as `THALWEG_PROTECTION`.
    pub protection: Option<PathBuf>,
    /// `true` to allow tasks on several hosts without keys.
    pub unprotected_network: bool,
    /// `true` to check before the start that all hosts reach each other.
    pub check_network: bool,
    /// Address of this host for tasks of others; by default the one from which the first of them is reached.
    pub address: Option<IpAddr>,
    /// Path of the program `thalweg` on other hosts, which is their agent.
    pub agent: String,
    /// Folder on other hosts to which the program and the agent are copied before the start. Tasks run there.
    pub copy: Option<PathBuf>,
    /// Time in which the agents of all hosts answer, and in which a host that was lost comes back for a restart of ranks.
    pub start_timeout: Duration,
    /// File for the trace of the collectives of all ranks of this host.
    pub trace: Option<PathBuf>,
}

impl JobOptions {
    /// Checks that tasks may communicate over a network.
    ///
    /// # Errors
    /// There are no keys, and the network is not trusted.
    pub fn check_protection(&self) -> Result<()> {
        if self.protection.is_some() || self.unprotected_network {
            return Ok(());
        }
        let text = "tasks on several hosts need --protection DIR, with keys of `thalweg protect`; or --unprotected-network, on a \
                    network that you trust";
        Err(text.into())
    }
}

impl Default for JobOptions {
    fn default() -> JobOptions {
        JobOptions {
            grace: Duration::from_secs(30),
            restarts: 0,
            output_dir: None,
            env: Vec::new(),
            free_ports: false,
            metrics: false,
            sharing: Sharing {
                split_gpus: false,
                bind_cores: false,
            },
            protection: None,
            unprotected_network: false,
            check_network: true,
            address: None,
            agent: "thalweg".to_owned(),
            copy: None,
            start_timeout: Duration::from_secs(60),
            trace: None,
        }
    }
}
