//! ElasticJob: a job of ranks that come and go, and its limits.

use std::time::Duration;

use crate::error::Result;
use crate::hosted_job::HostedJob;
use crate::layout::JobShape;

/// Elastic job: workers may be lost and join while it runs. Its program uses `thalweg::hvd::elastic`.
#[derive(Clone, Debug)]
pub struct ElasticJob {
    /// Number of ranks of the first round, hosts and their slots, access, options and program. A host without slots has one.
    /// Without hosts and without a discovery script, all workers run on this host.
    pub job: HostedJob,
    /// Limits of the job.
    pub elastic: ElasticOptions,
}

/// Limits of an elastic job.
#[derive(Clone, Debug)]
pub struct ElasticOptions {
    /// Minimum number of ranks; 1 by default.
    pub min_ranks: Option<usize>,
    /// Maximum number of ranks; by default the number of slots.
    pub max_ranks: Option<usize>,
    /// Program that prints lines of `host:slots`, in place of the hosts of the job.
    pub discovery_script: Option<String>,
    /// Maximum number of rounds after the first.
    pub reset_limit: Option<u64>,
    /// Time that a round waits for enough workers until the job ends.
    pub timeout: Duration,
    /// Minimum and maximum time for which a host starts no worker after one of it, or the host, has failed.
    pub cooldown: [Duration; 2],
}

impl Default for ElasticOptions {
    fn default() -> ElasticOptions {
        ElasticOptions {
            min_ranks: None,
            max_ranks: None,
            discovery_script: None,
            reset_limit: None,
            timeout: Duration::from_secs(600),
            cooldown: [10, 600].map(Duration::from_secs),
        }
    }
}

impl ElasticJob {
    /// Number of ranks of the first round.
    ///
    /// # Errors
    /// The job is no job of ranks, or has options that are of ranks that stay.
    pub(super) fn checked_ranks(&self) -> Result<usize> {
        let JobShape::Ranks(ranks) = self.job.shape else {
            return Err("ranks come and go, and servers and workers do not: give --np".into());
        };
        if self.job.command.is_empty() {
            return Err("no program is named".into());
        }
        if !self.job.hosts.is_empty() && self.elastic.discovery_script.is_some() {
            return Err(
                "the hosts are given twice: by a list, and by a host discovery script".into(),
            );
        }
        let options = &self.job.options;
        let unusable = [
            (
                options.trace.is_some(),
                "--trace is of ranks that stay: of ranks that come and go, set THALWEG_TRACE to a file, and each rank of each \
                 round writes one of its own",
            ),
            (
                options.restarts > 0,
                "--restarts is of ranks that stay: those that come and go are replaced, and --reset-limit is the limit",
            ),
            (
                options.output_dir.is_some(),
                "--output-dir is of ranks that stay: ranks that come and go change their numbers",
            ),
            (
                options.sharing.split_gpus || options.sharing.bind_cores,
                "--gpus split and --bind are of ranks that stay: the number of ranks of a host changes",
            ),
            (
                options.copy.is_some(),
                "--copy is of ranks that stay: hosts that come later have the program already",
            ),
        ];
        match unusable.into_iter().find(|(given, _)| *given) {
            Some((_, why)) => Err(why.into()),
            None => Ok(ranks),
        }
    }
}
