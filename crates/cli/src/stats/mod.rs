//! `thalweg stats`: linear regression and K-means over the rows of files, alone or as ranks; their times on a cluster.

mod curve;
mod data;
mod fit_run;
mod kernel_speed;
mod kmeans;
mod linear;
mod predict;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Fit a linear regression or K-means to the rows of files, in one process or on ranks
///
/// Every launcher starts it: `thalweg launch hvd -np 4 -- thalweg stats kmeans --clusters 8 --data rows.npy`. Rank 0 prints the
/// result, which is the same on all ranks.
#[derive(Args)]
pub(crate) struct StatsArgs {
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    Linear(linear::Linear),
    Kmeans(kmeans::Kmeans),
    Predict(predict::Predict),
}

impl StatsArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.program {
            Program::Linear(linear) => linear.run(),
            Program::Kmeans(kmeans) => kmeans.run(),
            Program::Predict(predict) => predict.run(),
        }
    }
}
