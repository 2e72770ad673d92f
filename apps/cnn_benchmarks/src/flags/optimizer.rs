//! Flags of the optimizer, its learning rate and its other hyperparameters.

use clap::{Args, ValueEnum};

/// The optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    Sgd,
    /// Nesterov's.
    Momentum,
    Rmsprop,
    Adam,
    /// Ours: layer-wise rates, for large batches.
    Lars,
    /// Ours: Adam with layer-wise rates.
    Lamb,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Sgd => "sgd",
            Algorithm::Momentum => "momentum",
            Algorithm::Rmsprop => "rmsprop",
            Algorithm::Adam => "adam",
            Algorithm::Lars => "lars",
            Algorithm::Lamb => "lamb",
        }
    }
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case", next_help_heading = "Optimizer")]
pub struct OptimizerFlags {
    /// The optimizer.
    #[arg(long, value_enum, default_value = "sgd")]
    pub optimizer: Algorithm,
    /// The learning rate at first, in place of the model's.
    #[arg(long)]
    pub init_learning_rate: Option<f64>,
    /// Rates by passes: `rate;passes;rate;...;rate`.
    #[arg(long)]
    pub piecewise_learning_rate_schedule: Option<String>,
    /// Passes after which the rate decays.
    #[arg(long, default_value_t = 0.0)]
    pub num_epochs_per_decay: f64,
    /// Factor of that decay.
    #[arg(long, default_value_t = 0.0)]
    pub learning_rate_decay_factor: f64,
    /// The least rate of that decay.
    #[arg(long, default_value_t = 0.0)]
    pub minimum_learning_rate: f64,
    /// Passes in which the rate grows from 0.
    #[arg(long, default_value_t = 0.0)]
    pub num_learning_rate_warmup_epochs: f64,
    /// The rate of ResNet for each 256 images of a step, in place of 0.128.
    #[arg(long)]
    pub resnet_base_lr: Option<f64>,
    /// Of the optimizer `momentum`, and of lars.
    #[arg(long, default_value_t = 0.9)]
    pub momentum: f32,
    /// Of rmsprop.
    #[arg(long, default_value_t = 0.9)]
    pub rmsprop_decay: f32,
    /// Of rmsprop.
    #[arg(long, default_value_t = 0.9)]
    pub rmsprop_momentum: f32,
    /// Of rmsprop.
    #[arg(long, default_value_t = 1.0)]
    pub rmsprop_epsilon: f32,
    /// Of adam and lamb.
    #[arg(long, default_value_t = 0.9)]
    pub adam_beta1: f32,
    /// Of adam and lamb.
    #[arg(long, default_value_t = 0.999)]
    pub adam_beta2: f32,
    /// Of adam and lamb.
    #[arg(long, default_value_t = 1e-8)]
    pub adam_epsilon: f32,
    /// Elements of gradients are clipped to this size.
    #[arg(long)]
    pub gradient_clip: Option<f32>,
    /// The decay of weights, but for batch normalization's.
    #[arg(long, default_value_t = 4e-5)]
    pub weight_decay: f64,
    /// The decay's loss in one op; the engine fuses it as it likes.
    #[arg(long)]
    pub single_l2_loss_op: bool,
    /// Computes in f16.
    #[arg(long)]
    pub use_fp16: bool,
    /// Keeps variables in f16 too.
    #[arg(long)]
    pub fp16_vars: bool,
    /// The loss scale with --use_fp16; 128 by default.
    #[arg(long)]
    pub fp16_loss_scale: Option<f32>,
    /// Adapts the loss scale.
    #[arg(long)]
    pub fp16_enable_auto_loss_scale: bool,
    /// Finite steps after which the loss scale is doubled.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub fp16_inc_loss_scale_every_n: u32,
    /// Computes the rate on the CPU.
    #[arg(long)]
    pub compute_lr_on_cpu: bool,
}
