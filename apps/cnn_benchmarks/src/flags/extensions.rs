//! Flags that tf_cnn_benchmarks does not have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Content of the synthetic images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Synthetic {
    /// Noise, with random labels.
    Random,
    /// A pattern for each class, under noise, which a network can learn.
    Patterns,
}

/// Placement of variables on parameter servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum PlacementKind {
    /// The server with the fewest bytes, for one variable after the other.
    Greedy,
    /// One server after the other.
    RoundRobin,
    /// The server with the fewest bytes, for the largest variable first.
    LargestFirst,
}

impl PlacementKind {
    pub fn name(self) -> &'static str {
        match self {
            PlacementKind::Greedy => "greedy",
            PlacementKind::RoundRobin => "round_robin",
            PlacementKind::LargestFirst => "largest_first",
        }
    }
}

/// The version of tf_cnn_benchmarks whose output is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// The newest version.
    #[value(name = "2023")]
    Newest,
    /// The version of May 2017, which the report measured.
    #[value(name = "2017")]
    Report,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case", next_help_heading = "Ours")]
pub struct ExtensionFlags {
    /// Reduction of the gradients of all towers and workers: mean or sum.
    #[arg(long, default_value = "mean", value_parser = ["mean", "sum"])]
    pub gradient_reduction: String,
    /// Placement of variables on the parameter servers of a cluster.
    #[arg(long, value_enum, default_value = "greedy")]
    pub server_placement: PlacementKind,
    /// Content of the synthetic images.
    #[arg(long, value_enum, default_value = "random")]
    pub synthetic: Synthetic,
    /// Computes in bf16, with f32 weights.
    #[arg(long)]
    pub use_bf16: bool,
    /// Lets GPUs compute f32 in TF32: several times as fast, with 10 bits of mantissa.
    #[arg(long)]
    pub allow_tf32: bool,
    /// The output of the version of this year.
    #[arg(long, value_enum, default_value = "2023")]
    pub compat: Compat,
    /// Adds the auxiliary head, where the model has one.
    #[arg(long)]
    pub auxiliary_head: bool,
    /// Prints results as lines of JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Draws the speed of each step, and the time of a step by activity.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Prints the placement, and the bytes and operations of a step; trains nothing.
    #[arg(long)]
    pub explain: bool,
    /// Prints the models.
    #[arg(long)]
    pub list_models: bool,
    /// The folder with the cluster's keys and certificates, from `thalweg protect`.
    #[arg(long, value_name = "DIR")]
    pub protection: Option<PathBuf>,
}
