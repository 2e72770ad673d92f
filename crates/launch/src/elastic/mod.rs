//! Elastic jobs: workers are started, replaced and let go while the job runs, on this host and others.

mod agents;
mod hosts;
mod job;
mod options;
mod running;
mod script;
mod starting;
mod workers;

pub use options::{ElasticJob, ElasticOptions};
