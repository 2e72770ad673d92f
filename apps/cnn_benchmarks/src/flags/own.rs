//! Flags that tf_cnn_benchmarks does not have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What synthetic images show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Synthetic {
    /// Noise, and labels that have nothing to do with it.
    Random,
    /// A pattern for each class, under noise: a network learns it.
    Patterns,
}

/// Whose output is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// The newest version's.
    #[value(name = "2023")]
    Newest,
    /// That of the version of May 2017, which the report measured.
    #[value(name = "2017")]
    Report,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case", next_help_heading = "Ours")]
pub struct OwnFlags {
    /// What becomes of the gradients of all towers and workers: mean or sum.
    #[arg(long, default_value = "mean", value_parser = ["mean", "sum"])]
    pub gradient_reduction: String,
    /// What synthetic images show.
    #[arg(long, value_enum, default_value = "random")]
    pub synthetic: Synthetic,
    /// Computes in bf16, with f32 weights.
    #[arg(long)]
    pub use_bf16: bool,
    /// The output of the version of this year.
    #[arg(long, value_enum, default_value = "2023")]
    pub compat: Compat,
    /// With the auxiliary head, where the model has one.
    #[arg(long)]
    pub auxiliary_head: bool,
    /// Prints results as lines of JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Draws the speed of each step, and what the time of a step went to.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Prints what goes where, and what a step must move and compute, and trains nothing.
    #[arg(long)]
    pub explain: bool,
    /// Prints the models.
    #[arg(long)]
    pub list_models: bool,
    /// The folder with what protects the cluster, which `thalweg protect` makes.
    #[arg(long, value_name = "DIR")]
    pub protection: Option<PathBuf>,
}
