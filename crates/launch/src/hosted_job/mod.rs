//! Jobs whose tasks all start at once, on this host and others: clusters and ranks.

mod address;
mod copied;
mod job;
mod plan;
mod rank_job;
mod run;

pub(crate) use address::with_port;
pub use job::{HostedJob, JobOptions};
pub use plan::{JobPlan, PlannedHost, PlannedTask};
pub(crate) use plan::{cluster_flags, named_twice, passed_variables, tf_config};
