//! Elastic jobs: workers are started, replaced and let go while the job runs.

mod discovery;
mod job;

pub use job::ElasticJob;
