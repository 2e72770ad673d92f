//! Command-line flags of the example `deep_mnist`.

use std::path::PathBuf;

use clap::Parser;
use thalweg::prelude::*;

/// Trains a convolutional network on MNIST, and tests it.
#[derive(Parser)]
pub struct Flags {
    /// The folder with MNIST's four files; without it, a part of MNIST that comes with the code.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The order of the images' dimensions: NHWC or NCHW.
    #[arg(long, default_value = "NHWC", value_parser = data_format)]
    pub data_format: DataFormat,
    /// Images in each step.
    #[arg(long, default_value_t = 50)]
    pub batch_size: usize,
    /// Steps of training.
    #[arg(long, default_value_t = 5000)]
    pub train_steps: u64,
    /// Adam's learning rate.
    #[arg(long, default_value_t = 1e-4)]
    pub learning_rate: f32,
    /// The part of the steps, at the end, over which the learning rate falls to zero; 0 for none.
    #[arg(long, default_value_t = 0.2, value_name = "PART", value_parser = part)]
    pub decay: f64,
    /// Steps between two lines of progress.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub display_every: u64,
    /// Seed of the initial weights, the dropout and the order of the images.
    #[arg(long, default_value_t = 1)]
    pub seed: u32,
    /// The device that the model is on: /cpu:0, /gpu:0.
    #[arg(long, default_value = "")]
    pub device: DeviceSpec,
    /// Threads; 0 for as many as the machine runs at once.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// The folder for checkpoints and event files: a training goes on from the newest checkpoint there.
    #[arg(long, value_name = "DIR")]
    pub checkpoint_dir: Option<PathBuf>,
    /// Steps between two checkpoints.
    #[arg(long, default_value_t = 500)]
    pub save_steps: u64,
    /// Writes a trace of one step to this file, for Perfetto or chrome://tracing.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Draws loss and accuracy over the steps into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Prints results as lines of JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Measures the speed of training on synthetic images.
    #[arg(long)]
    pub benchmark: bool,
    /// Steps of the benchmark that come before the measured ones.
    #[arg(long, default_value_t = 10)]
    pub warmup: usize,
    /// Measured steps of the benchmark.
    #[arg(long, default_value_t = 60)]
    pub steps: usize,
}

fn part(text: &str) -> std::result::Result<f64, String> {
    let part = text.parse().map_err(|e| format!("{e}"))?;
    match part {
        0.0..=1.0 => Ok(part),
        _ => Err("give a part between 0 and 1".to_owned()),
    }
}

fn data_format(name: &str) -> std::result::Result<DataFormat, String> {
    [DataFormat::Nhwc, DataFormat::Nchw]
        .into_iter()
        .find(|f| f.name().eq_ignore_ascii_case(name))
        .ok_or("give NHWC or NCHW".to_owned())
}
