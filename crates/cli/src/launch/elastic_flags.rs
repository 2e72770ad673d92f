//! Flags of elastic jobs.

use clap::Args;
use thalweg_launch::{ElasticJob, ElasticOptions, HostedJob, JobExit};

use super::explain::{Explain, run_or_explain};
use super::job_flags::seconds;
use crate::failure::Failure;

/// Flags of elastic jobs: each makes a job of ranks elastic.
#[derive(Args)]
pub(super) struct ElasticFlags {
    /// Goes on with as few ranks as this when others are lost (1). With this option, and with each of those that follow,
    /// ranks may come and go: the program uses `thalweg::hvd::elastic`.
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    min_np: Option<u32>,
    /// Lets in ranks up to so many, if the hosts have slots for them.
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    max_np: Option<u32>,
    /// A program that prints lines of host:slots, in place of a list of hosts. It is run every second; workers are started and
    /// told to leave accordingly.
    #[arg(long, value_name = "PROGRAM")]
    host_discovery_script: Option<String>,
    /// Number of times that ranks may be lost or let in until the job ends.
    #[arg(long, value_name = "ROUNDS")]
    reset_limit: Option<u32>,
    /// Seconds to wait for enough workers (600).
    #[arg(long, value_name = "SECONDS")]
    elastic_timeout: Option<u32>,
    /// Seconds for which a host starts no worker after it, or a worker of it, has failed: at first, and at most (10 600). It
    /// doubles each time.
    #[arg(long, num_args = 2, value_names = ["LEAST", "MOST"])]
    blacklist_cooldown_range: Option<Vec<u32>>,
}

impl ElasticFlags {
    /// `true` if a script names the hosts.
    pub(super) fn has_script(&self) -> bool {
        self.host_discovery_script.is_some()
    }

    /// Limits of the job; `None` if no flag is given.
    fn options(&self) -> Option<ElasticOptions> {
        let is_elastic = self.min_np.is_some()
            || self.max_np.is_some()
            || self.host_discovery_script.is_some()
            || self.reset_limit.is_some()
            || self.elastic_timeout.is_some()
            || self.blacklist_cooldown_range.is_some();
        let defaults = ElasticOptions::default();
        is_elastic.then(|| ElasticOptions {
            min_ranks: self.min_np.map(|n| n as usize),
            max_ranks: self.max_np.map(|n| n as usize),
            discovery_script: self.host_discovery_script.clone(),
            reset_limit: self.reset_limit.map(u64::from),
            timeout: self.elastic_timeout.map_or(defaults.timeout, seconds),
            cooldown: match self.blacklist_cooldown_range.as_deref() {
                Some(&[min, max]) => [min, max].map(seconds),
                _ => defaults.cooldown,
            },
        })
    }

    /// Runs a job, or shows what it would start.
    pub(super) fn run_or_explain(
        &self,
        job: HostedJob,
        explain: &Explain,
    ) -> Result<JobExit, Failure> {
        let Some(elastic) = self.options() else {
            return run_or_explain(&job, explain);
        };
        if explain.is_wanted() {
            return Err(
                "--explain is of ranks that stay: ranks that come and go have no fixed places"
                    .into(),
            );
        }
        Ok(ElasticJob { job, elastic }.run()?)
    }
}
