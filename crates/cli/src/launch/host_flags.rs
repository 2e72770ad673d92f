//! Flags of the hosts of a job.

use std::path::PathBuf;

use clap::Args;
use thalweg_launch::{JobHost, batch_hosts};

use crate::failure::Failure;

/// Hosts of a job.
#[derive(Args)]
pub(super) struct HostFlags {
    /// File of hosts: lines of `HOST [slots=N] [address=IP]`. Slots are the workers or ranks that a host may have; the address is
    /// the one at which tasks of the other hosts reach it, such as a private one. `#` begins a comment. In a job of PBS, LSF or
    /// Grid Engine, the hosts are those of the job without this option.
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
}

impl HostFlags {
    /// Hosts of the flags.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn given(&self) -> Result<Option<Vec<JobHost>>, Failure> {
        match &self.hosts {
            Some(path) => Ok(Some(JobHost::read_file(path)?)),
            None => Ok((!self.list.is_empty()).then(|| self.list.clone())),
        }
    }

    /// Hosts of the flags, or of the batch job in which this process runs.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn given_or_of_batch_job(&self) -> Result<Option<Vec<JobHost>>, Failure> {
        match self.given()? {
            Some(hosts) => Ok(Some(hosts)),
            None => Ok(batch_hosts(&|name| std::env::var(name).ok())?),
        }
    }
}
