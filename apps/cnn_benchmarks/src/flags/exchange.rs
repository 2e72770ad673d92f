//! Variables and the exchange of gradients.

use clap::{Args, ValueEnum};

/// Which of the tasks a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Job {
    Ps,
    Worker,
    Controller,
}

/// Which gradients an update has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Consistency {
    /// Those of its step.
    Strong,
    /// Those of the step before.
    Relaxed,
}

#[derive(Args, Debug)]
#[command(
    rename_all = "snake_case",
    next_help_heading = "Variables and exchange"
)]
pub struct ExchangeFlags {
    /// How variables are updated: independent, parameter_server, replicated, distributed_replicated; horovod on the ranks of
    /// `thalweg launch hvd`, which distributed_all_reduce and collective_all_reduce are too.
    #[arg(long, default_value = "parameter_server", value_parser = [
        "independent", "parameter_server", "replicated", "distributed_replicated",
        "distributed_all_reduce", "collective_all_reduce", "horovod",
    ])]
    pub variable_update: String,
    /// How `replicated` reduces gradients, such as `xring` or `pscpu:32k:xring#2`.
    #[arg(long)]
    pub all_reduce_spec: Option<String>,
    /// Values and gradients are copied while the step before computes; of parameter_server.
    #[arg(long)]
    pub staged_vars: bool,
    /// Whether workers of a cluster train in step.
    #[arg(long, default_value_t = true)]
    pub cross_replica_sync: bool,
    /// `relaxed` applies gradients a step later; of replicated.
    #[arg(long, value_enum, default_value = "strong")]
    pub variable_consistency: Consistency,
    /// Gradients cross as so many equal parts of all; of replicated.
    #[arg(long, default_value_t = 0)]
    pub gradient_repacking: usize,
    /// With --use_fp16, gradients cross as f16.
    #[arg(long, default_value_t = true)]
    pub compact_gradient_transfer: bool,
    /// Gradients up to so many bytes are packed.
    #[arg(long, default_value_t = 0)]
    pub agg_small_grads_max_bytes: usize,
    /// So many of them.
    #[arg(long, default_value_t = 10)]
    pub agg_small_grads_max_group: usize,
    /// All-reduces that are merged.
    #[arg(long, default_value_t = 1)]
    pub allreduce_merge_scope: usize,
    /// Gradients are summed in groups of devices first; of replicated.
    #[arg(long)]
    pub hierarchical_copy: bool,
    /// How those devices are connected.
    #[arg(long, default_value = "dgx1", value_parser = ["dgx1", "gcp_v100"])]
    pub network_topology: String,
    /// The job of this task; none without it.
    #[arg(long, value_enum)]
    pub job_name: Option<Job>,
    /// The addresses of parameter servers, with commas between them.
    #[arg(long, default_value = "")]
    pub ps_hosts: String,
    /// The addresses of workers, with commas between them.
    #[arg(long, default_value = "")]
    pub worker_hosts: String,
    /// The address of the controller.
    #[arg(long)]
    pub controller_host: Option<String>,
    /// The number of this task in its job.
    #[arg(long, default_value_t = 0)]
    pub task_index: u32,
    /// What servers speak.
    #[arg(long, default_value = "grpc", value_parser = ["grpc"])]
    pub server_protocol: String,
    /// Where Horovod reduces.
    #[arg(long, default_value = "", value_parser = ["", "cpu", "gpu"])]
    pub horovod_device: String,
    /// All variables are resources, with or without it.
    #[arg(long)]
    pub use_resource_vars: bool,
}
