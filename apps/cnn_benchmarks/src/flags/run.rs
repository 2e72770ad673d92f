//! Flags of the model and of the length of the run.

use clap::{Args, ValueEnum};

/// The loss that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum LossType {
    /// With the weight decay.
    TotalLoss,
    /// Without the weight decay.
    BaseLoss,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case", next_help_heading = "Model and run")]
pub struct RunFlags {
    /// The network: `--list_models` prints all names.
    #[arg(long, default_value = "trivial")]
    pub model: String,
    /// Images of a tower in a step; 0 for the model's own number.
    #[arg(long, default_value_t = 0)]
    pub batch_size: usize,
    /// The same, for evaluation.
    #[arg(long, default_value_t = 0)]
    pub eval_batch_size: usize,
    /// Steps that are measured; 100 without it.
    #[arg(long)]
    pub num_batches: Option<u64>,
    /// Measured passes over all images, in place of --num_batches.
    #[arg(long)]
    pub num_epochs: Option<f64>,
    /// Steps of an evaluation; one pass without it.
    #[arg(long)]
    pub num_eval_batches: Option<u64>,
    /// Passes of an evaluation.
    #[arg(long)]
    pub num_eval_epochs: Option<f64>,
    /// Steps before those that are measured; 10 without it.
    #[arg(long)]
    pub num_warmup_batches: Option<u64>,
    /// Steps between two lines.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub display_every: u64,
    /// Smooths the speed: 0 to 1, the weight of the past. A plain mean without it.
    #[arg(long)]
    pub display_perf_ewma: Option<f64>,
    /// Batches that are prepared together.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub batch_group_size: u64,
    /// Evaluates the newest checkpoint of --train_dir.
    #[arg(long)]
    pub eval: bool,
    /// Runs the network without training it.
    #[arg(long)]
    pub forward_only: bool,
    /// Runs it with constants in place of variables.
    #[arg(long)]
    pub freeze_when_forward_only: bool,
    /// Trains and evaluates in turn: steps between two evaluations.
    #[arg(long)]
    pub eval_during_training_every_n_steps: Option<u64>,
    /// The same, in passes.
    #[arg(long)]
    pub eval_during_training_every_n_epochs: Option<f64>,
    /// The same, at these steps: a list with commas.
    #[arg(long, value_delimiter = ',')]
    pub eval_during_training_at_specified_steps: Vec<u64>,
    /// The same, after these passes: a list with commas.
    #[arg(long, value_delimiter = ',')]
    pub eval_during_training_at_specified_epochs: Vec<f64>,
    /// Seconds between evaluations of the newest checkpoint; 0 for one evaluation.
    #[arg(long, default_value_t = 0)]
    pub eval_interval_secs: u64,
    /// Ends when an evaluation during training reaches this accuracy.
    #[arg(long)]
    pub stop_at_top_1_accuracy: Option<f64>,
    /// Prints the accuracy on the training images.
    #[arg(long)]
    pub print_training_accuracy: bool,
    /// The loss that is printed.
    #[arg(long, value_enum, default_value = "total_loss")]
    pub loss_type_to_report: LossType,
    /// The seed of initial values and of dropout.
    #[arg(long, default_value_t = 1234)]
    pub tf_random_seed: u64,
    /// Prints MLPerf's tags.
    #[arg(long)]
    pub ml_perf: bool,
    /// A folder for `metric.log`: a line of JSON for each result.
    #[arg(long, value_name = "DIR")]
    pub benchmark_log_dir: Option<std::path::PathBuf>,
}
