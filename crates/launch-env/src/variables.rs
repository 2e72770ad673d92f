//! Names of the environment variables of ranks: Horovod's names, and some of Thalweg's own.

/// Function that looks up an environment variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Number of the rank.
pub const RANK: &str = "HOROVOD_RANK";
/// Number of ranks.
pub const SIZE: &str = "HOROVOD_SIZE";
/// Number of the rank among those of its host.
pub const LOCAL_RANK: &str = "HOROVOD_LOCAL_RANK";
/// Number of ranks of its host.
pub const LOCAL_SIZE: &str = "HOROVOD_LOCAL_SIZE";
/// IP address of the coordinator.
pub const ADDRESS: &str = "HOROVOD_GLOO_RENDEZVOUS_ADDR";
/// Port of the coordinator.
pub const PORT: &str = "HOROVOD_GLOO_RENDEZVOUS_PORT";
/// 1 disables warnings about a rank that does not come to a collective.
pub const STALL_DISABLE: &str = "HOROVOD_STALL_CHECK_DISABLE";
/// Seconds that ranks wait in a collective for a rank until a warning is logged.
pub const STALL_WARN: &str = "HOROVOD_STALL_CHECK_TIME_SECONDS";
/// Seconds until the job then ends; 0 for never.
pub const STALL_END: &str = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS";
/// Seconds that ranks wait at start until all have come.
pub const TIMEOUT: &str = "HOROVOD_GLOO_TIMEOUT_SECONDS";
/// 1 for an elastic job: ranks may come and go.
pub const ELASTIC: &str = "HOROVOD_ELASTIC";
/// Number of a worker process of an elastic job.
pub const WORKER: &str = "THALWEG_ELASTIC_WORKER";
/// Name of the host, as the launcher calls it.
pub const HOST: &str = "HOROVOD_HOSTNAME";
/// File to which rank 0 writes the timeline of its collectives.
pub const TIMELINE: &str = "HOROVOD_TIMELINE";
/// Number of connections between two ranks of different hosts.
pub const CONNECTIONS: &str = "THALWEG_CONNECTIONS";
/// Folder of keys that `thalweg protect` has made: connections go over TLS.
pub const PROTECTION: &str = "THALWEG_PROTECTION";
/// File to which each rank writes the trace of its collectives; the rank's number is appended to the name.
pub const TRACE: &str = "THALWEG_TRACE";
/// Secret that the ranks of a job share.
pub const SECRET: &str = "THALWEG_JOB_SECRET";
/// Name or IP address of the host of rank 0, which runs the coordinator; in place of what the launcher tells.
pub const COORDINATOR: &str = "THALWEG_COORDINATOR";
/// Port of the coordinator that rank 0 runs.
pub const COORDINATOR_PORT: &str = "THALWEG_COORDINATOR_PORT";
/// Number of times that all ranks of the job were started again by their launcher (`--restarts`): 0 at first.
pub const RESTART: &str = "THALWEG_RESTART";
/// 1 allows ranks of several hosts without TLS, on a network that the user trusts.
pub const UNPROTECTED_NETWORK: &str = "THALWEG_UNPROTECTED_NETWORK";
/// Address and port at which a task of a cluster serves its metrics.
pub const METRICS: &str = "THALWEG_METRICS";
/// Number of ranks of an indexed Job of Kubernetes, which has no variable for it.
pub const JOB_SIZE: &str = "THALWEG_JOB_SIZE";
/// TensorFlow's description of a cluster, and of the task of the process.
pub const TF_CONFIG: &str = "TF_CONFIG";
