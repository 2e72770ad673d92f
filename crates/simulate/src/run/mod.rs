//! Runs: a template's step on all workers of a cluster.

mod all_reduce;
mod hosts;
mod prediction;
mod recording;
mod servers;
mod statistics;
mod straggling;
#[cfg(test)]
mod tests;
mod timeline;

pub use all_reduce::AllReduceOptions;
pub use hosts::ResourceUse;
pub use prediction::Prediction;
pub(crate) use servers::steps;
pub use statistics::{PassKernel, PassPrediction, StatisticsPass};
pub use timeline::Span;

use crate::cluster::Cluster;
use crate::step::StepTemplate;

/// Predicts a step of so many workers with the servers of a template, on `batch` images of each device.
pub fn predict_servers(
    template: &StepTemplate,
    cluster: &Cluster,
    workers: u32,
    batch: u32,
) -> Prediction {
    servers::simulate(template, cluster, workers, batch)
}

/// Predicts a step of so many ranks that all-reduce the gradients which a template sends to servers.
pub fn predict_all_reduce(
    template: &StepTemplate,
    cluster: &Cluster,
    ranks: u32,
    batch: u32,
    options: &AllReduceOptions,
) -> Prediction {
    all_reduce::simulate(template, cluster, ranks, batch, options)
}
