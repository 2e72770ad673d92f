//! Command-line flags of the example `dist_deep_mnist`: those of the report's script.

use std::path::PathBuf;

use clap::{ArgAction, Parser, ValueEnum};
use thalweg::prelude::*;

/// The job of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Job {
    /// A parameter server.
    Ps,
    /// A worker.
    Worker,
}

impl Job {
    /// Its name in the cluster.
    pub fn name(self) -> &'static str {
        match self {
            Job::Ps => "ps",
            Job::Worker => "worker",
        }
    }
}

/// Trains deep MNIST on parameter servers and workers. Start one process for each task, all with the
/// same hosts, or let `thalweg launch local` do so.
#[derive(Parser)]
pub struct Flags {
    /// The job of this task.
    #[arg(long = "job_name", value_enum)]
    pub job: Job,
    /// The number of this task in its job.
    #[arg(long = "task_index", default_value_t = 0)]
    pub task: u32,
    /// The addresses of the parameter servers, with commas between them.
    #[arg(long = "ps_hosts", value_name = "HOST:PORT,...")]
    pub ps_hosts: String,
    /// The addresses of the workers, with commas between them.
    #[arg(long = "worker_hosts", value_name = "HOST:PORT,...")]
    pub worker_hosts: String,
    /// Trains the workers synchronously: an update is the mean of their gradients.
    #[arg(long = "sync_replicas", action = ArgAction::Set, default_value_t = false,
          num_args = 0..=1, default_missing_value = "true")]
    pub sync: bool,
    /// Number of gradients that a synchronous update waits for; 0 for the number of workers.
    #[arg(long = "replicas_to_aggregate", default_value_t = 0)]
    pub aggregate: u32,
    /// The folder for checkpoints and event files, which worker 0 writes. A training goes on from the newest one, also
    /// after a parameter server was lost.
    #[arg(long = "checkpoint_dir", value_name = "DIR")]
    pub checkpoint_dir: Option<PathBuf>,
    /// Updates between two checkpoints.
    #[arg(long = "save_steps", default_value_t = 500)]
    pub save_steps: u64,
    /// The folder with MNIST's four files; without it, a part of MNIST that comes with the code.
    #[arg(long = "data_dir", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The order of the images' dimensions: NHWC or NCHW.
    #[arg(long = "data_format", default_value = "NHWC", value_parser = data_format)]
    pub data_format: DataFormat,
    /// Images in each step of a worker.
    #[arg(long = "batch_size", default_value_t = 50)]
    pub batch_size: usize,
    /// Updates, those of all workers together.
    #[arg(long = "train_steps", default_value_t = 5000)]
    pub train_steps: u64,
    /// Adam's learning rate.
    #[arg(long = "learning_rate", default_value_t = 1e-4)]
    pub learning_rate: f32,
    /// The part of the steps, at the end, over which the learning rate falls to zero; 0 for none.
    #[arg(long, default_value_t = 0.2, value_name = "PART")]
    pub decay: f64,
    /// Steps of a worker between two lines of progress.
    #[arg(long = "display_every", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub display_every: u64,
    /// Seed of the initial weights, the dropout and the order of the images.
    #[arg(long, default_value_t = 1)]
    pub seed: u32,
    /// Threads of this task; 0 for as many as the machine runs at once.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// The folder with the cluster's keys and certificates, from `thalweg protect`.
    #[arg(long, value_name = "DIR")]
    pub protection: Option<PathBuf>,
    /// Records a step on all tasks, once the first few have run, for Perfetto. Not with --sync_replicas.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Prints results as lines of JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Measures the speed of training on synthetic images, for this number of steps of each worker after 8 that are not
    /// measured.
    #[arg(long, default_value_t = 0, value_name = "STEPS")]
    pub benchmark: u64,
}

impl Flags {
    /// Updates until the training is over.
    pub fn steps(&self) -> u64 {
        match self.benchmark {
            0 => self.train_steps,
            // More than all workers together run.
            measured => (measured + super::WARMUP).saturating_mul(1000),
        }
    }
}

fn data_format(name: &str) -> std::result::Result<DataFormat, String> {
    [DataFormat::Nhwc, DataFormat::Nchw]
        .into_iter()
        .find(|f| f.name().eq_ignore_ascii_case(name))
        .ok_or("give NHWC or NCHW".to_owned())
}
