//! Flags of devices and threads.

use clap::{Args, ValueEnum};

/// A type of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Device {
    Cpu,
    Gpu,
}

impl Device {
    pub fn name(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Gpu => "gpu",
        }
    }
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case", next_help_heading = "Devices and threads")]
pub struct DeviceFlags {
    /// The type of the towers' devices.
    #[arg(long, value_enum, default_value = "gpu", ignore_case = true)]
    pub device: Device,
    /// The towers of a worker, on CPUs too.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub num_gpus: u16,
    /// The order of GPUs in the ring.
    #[arg(long, default_value = "")]
    pub gpu_indices: String,
    /// The devices of the variables of `parameter_server` in one process: the towers' devices, or the CPU.
    #[arg(long, value_enum, default_value = "gpu", ignore_case = true)]
    pub local_parameter_device: Device,
    /// The order of dimensions inside of the network: NHWC without it, for which GPUs and CPUs are fastest, or NCHW. Both
    /// work on all devices.
    #[arg(long, value_parser = ["NCHW", "NHWC"])]
    pub data_format: Option<String>,
    /// Threads that compute; all without it.
    #[arg(long)]
    pub num_intra_threads: Option<usize>,
    /// 0 for the engine's choice, which is the only one.
    #[arg(long, default_value_t = 0)]
    pub num_inter_threads: usize,
    /// The assignment of threads to GPUs.
    #[arg(long, default_value = "gpu_private", value_parser = ["global", "gpu_shared", "gpu_private"])]
    pub gpu_thread_mode: String,
    /// Threads of each GPU; 0 for two.
    #[arg(long, default_value_t = 0)]
    pub per_gpu_thread_count: usize,
    /// Binds a tower and its input to a socket.
    #[arg(long)]
    pub use_numa_affinity: bool,
    /// GPU memory grows as it is needed.
    #[arg(long)]
    pub allow_growth: Option<bool>,
    /// Page-locked host memory for all values.
    #[arg(long)]
    pub force_gpu_compatible: bool,
    /// The part of a GPU's memory that is taken.
    #[arg(long, default_value_t = 0.0)]
    pub gpu_memory_frac_for_testing: f64,
    /// cuDNN's Winograd kernels without fusion.
    #[arg(long, default_value_t = true)]
    pub winograd_nonfused: bool,
    /// cuDNN's persistent batch normalization.
    #[arg(long, default_value_t = true)]
    pub batchnorm_persistent: bool,
    /// Trials of cuDNN's algorithms.
    #[arg(long)]
    pub autotune_threshold: Option<u64>,
    /// Simplifies and fuses graphs.
    #[arg(long, default_value_t = true)]
    pub enable_optimizations: bool,
    /// Compiles with XLA.
    #[arg(long)]
    pub xla: bool,
    /// Compiles towers with XLA.
    #[arg(long)]
    pub xla_compile: bool,
    /// Waits for devices at the end of each step.
    #[arg(long)]
    pub sync_on_finish: bool,
}
