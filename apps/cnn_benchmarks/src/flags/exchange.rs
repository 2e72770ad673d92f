//! Flags of the update of variables (`--variable_update`), of the all-reduce, and of the tasks of a cluster.

use clap::{Args, ValueEnum};

/// The job of a task in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Job {
    Ps,
    Worker,
    Controller,
}

/// Age of the gradients of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Consistency {
    /// Gradients of the same step.
    Strong,
    /// Gradients of the step before.
    Relaxed,
}

#[derive(Args, Debug)]
#[command(
    rename_all = "snake_case",
    next_help_heading = "Variables and exchange"
)]
pub struct ExchangeFlags {
    /// The way of updating variables: independent, parameter_server, replicated, distributed_replicated; horovod on the
    /// ranks of `thalweg launch hvd`, which distributed_all_reduce and collective_all_reduce are too.
    #[arg(long, default_value = "parameter_server", value_parser = [
        "independent", "parameter_server", "replicated", "distributed_replicated",
        "distributed_all_reduce", "collective_all_reduce", "horovod",
    ])]
    pub variable_update: String,
    /// The all-reduce of `replicated`, such as `xring` or `pscpu:32k:xring#2`.
    #[arg(long)]
    pub all_reduce_spec: Option<String>,
    /// Copies values and gradients while the step before computes; for parameter_server.
    #[arg(long)]
    pub staged_vars: bool,
    /// Trains the workers of a cluster synchronously.
    #[arg(long, default_value_t = true)]
    pub cross_replica_sync: bool,
    /// `relaxed` applies gradients a step later; for replicated.
    #[arg(long, value_enum, default_value = "strong")]
    pub variable_consistency: Consistency,
    /// Number of equal parts in which gradients are exchanged; for replicated.
    #[arg(long, default_value_t = 0)]
    pub gradient_repacking: usize,
    /// With --use_fp16, exchanges gradients as f16.
    #[arg(long, default_value_t = true)]
    pub compact_gradient_transfer: bool,
    /// Packs gradients of at most this many bytes.
    #[arg(long, default_value_t = 0)]
    pub agg_small_grads_max_bytes: usize,
    /// Most gradients of a pack.
    #[arg(long, default_value_t = 10)]
    pub agg_small_grads_max_group: usize,
    /// Number of all-reduces that are merged.
    #[arg(long, default_value_t = 1)]
    pub allreduce_merge_scope: usize,
    /// Sums gradients in groups of devices first; for replicated.
    #[arg(long)]
    pub hierarchical_copy: bool,
    /// Topology of the connections between devices.
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
    /// The index of this task in its job.
    #[arg(long, default_value_t = 0)]
    pub task_index: u32,
    /// The protocol of servers.
    #[arg(long, default_value = "grpc", value_parser = ["grpc"])]
    pub server_protocol: String,
    /// The device of Horovod's reductions.
    #[arg(long, default_value = "", value_parser = ["", "cpu", "gpu"])]
    pub horovod_device: String,
    /// All variables are resources, with or without it.
    #[arg(long)]
    pub use_resource_vars: bool,
}
