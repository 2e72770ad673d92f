//! Devices: the CPU and its threads, GPUs, variables, and the kernel interface. This crate knows no op by name.
//!
//! ```
//! use thalweg_device::{Cpu, Device, DeviceType};
//!
//! let device = Device::Cpu(Cpu::new(2));
//! assert_eq!(device.device_type(), DeviceType::Cpu);
//! assert_eq!(device.name().to_string(), "/job:localhost/replica:0/task:0/device:CPU:0");
//! assert_eq!(device.host().pool().threads(), 2);
//! ```

pub mod chrome_trace;
pub mod collectives;
pub mod context;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "without_cuda.rs"]
pub mod cuda;
pub mod device;
mod device_type;
pub mod environment;
pub mod error;
pub mod evaluate;
pub mod files;
mod gate;
pub mod gpu;
pub mod kernel;
mod reduction;
pub mod rendezvous;
#[cfg(test)]
mod testing;
mod ticket;
pub mod variable;

pub use collectives::{
    Collective, CollectiveRequest, Collectives, GpuCollectives, PlannedCollective, RankOf,
};
pub use context::{InOut, KernelCx, Renewal, Slot};
pub use cpu::Cpu;
pub use device::Device;
pub use device_type::DeviceType;
pub use environment::{
    Argument, Environment, HolderHandle, NoStep, Printer, SharedObject, StopCheck, TensorCx,
    TensorHolder, is_true, print_to_stderr,
};
pub use error::KernelError;
pub use evaluate::{Bounds, evaluate, evaluate_for, evaluate_in, evaluate_within};
pub use files::{CheckpointListener, Files};
pub use gate::{Gate, GateGuard};
pub use kernel::{
    Body, Kernel, Op, Operand, Prepare, PrepareFn, Prepared, RunFn, cpu, cpu_tensors, gpu,
    gpu_functions, gpus_compute, on_host,
};
pub use reduction::{ReduceOp, Reduction};
pub use rendezvous::Rendezvous;
pub use ticket::Ticket;
pub use variable::Variable;
