//! Elastic jobs: workers are started, replaced and let go while the job runs.

mod hosts;
mod job;
mod options;
mod running;
mod script;

pub use options::ElasticJob;
