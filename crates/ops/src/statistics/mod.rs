//! Passes over tall matrices that statistics are made of: Gram matrices, triangular factors, nearest centroids.

mod build;
mod centroids;
mod gram;
mod inputs;
mod triangular_factor;

use thalweg_device::Op;

pub use build::{ClusterOutputs, StatisticsOps};

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &gram::GRAM_MATRIX,
    &triangular_factor::TRIANGULAR_FACTOR,
    &centroids::NEAREST_CENTROIDS,
    &centroids::CLUSTER_SUMS,
];
