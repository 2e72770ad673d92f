//! `thalweg bench`: benchmarks of collectives.

mod allreduce;
mod plot;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use allreduce::AllReduce;

/// Measures collectives of ranks.
#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    Allreduce(AllReduce),
}

impl Bench {
    /// Runs the benchmark, and prints its results.
    pub fn run(&self) -> Result<(), Failure> {
        let BenchCommand::Allreduce(all_reduce) = &self.command;
        all_reduce.run()
    }
}
