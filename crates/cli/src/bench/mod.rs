//! `thalweg bench`: how fast ranks of this machine exchange values.

mod allreduce;
mod plot;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use allreduce::AllReduce;

/// Measures what ranks do together.
#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Allreduce(AllReduce),
}

impl Bench {
    /// Measures and prints.
    pub fn run(&self) -> Result<(), Failure> {
        let What::Allreduce(all_reduce) = &self.what;
        all_reduce.run()
    }
}
