//! ElasticJob: the options of an elastic job.

use std::path::PathBuf;
use std::time::Duration;

/// Elastic job: workers may be lost and join while it runs. Its program uses `thalweg::hvd::elastic`.
#[derive(Clone, Debug)]
pub struct ElasticJob {
    /// Number of ranks of the first round.
    pub ranks: usize,
    /// Minimum number of ranks; 1 by default.
    pub min_ranks: Option<usize>,
    /// Maximum number of ranks; by default the number of slots.
    pub max_ranks: Option<usize>,
    /// Program that prints lines of `host:slots`; without it, all workers run on this host.
    pub discovery_script: Option<String>,
    /// Maximum number of rounds after the first.
    pub reset_limit: Option<u64>,
    /// Time that a round waits for enough workers until the job ends.
    pub timeout: Duration,
    /// Minimum and maximum time for which a host starts no worker after one of it has failed.
    pub cooldown: [Duration; 2],
    /// Time that a worker may take to end after SIGTERM.
    pub grace: Duration,
    /// Folder of keys: workers and launcher communicate over TLS.
    pub protection: Option<PathBuf>,
    /// Program of all workers, and its arguments.
    pub command: Vec<String>,
}
