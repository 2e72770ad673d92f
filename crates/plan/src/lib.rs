//! Planning: from a graph, fetches and feeds to a plan. The graph is simplified, fused, ordered, cut over devices and
//! tasks, and compiled to a program for each device. This crate makes plans and runs none.
//!
//! Sessions use it. A program that does not run steps itself can inspect the context that they would be compiled in.
//!
//! ```
//! use thalweg_device::{Cpu, Device, Files};
//! use thalweg_plan::Machine;
//!
//! let cpus = [0, 1].map(|i| Device::Cpu(Cpu::new(1).named(Cpu::local(i), None)));
//! let machine = Machine::new(cpus.into(), &thalweg_ops::OpSet::default(), Files::none(), None);
//! assert_eq!(machine.devices.len(), 2);
//! ```

mod bindings;
mod cache;
mod channels_last;
mod checked_node;
mod collectives;
mod compile;
mod deferred_products;
mod error;
mod fusion;
pub mod gpu_program;
mod gpu_work;
mod kernels;
mod machine;
mod memory;
mod options;
mod order;
mod parallel;
mod placements;
mod plan;
mod program;
pub mod region;
mod request;
mod store;
mod task_part;
mod task_partitioner;
#[cfg(test)]
mod testing;
mod wire_dtype;

pub use cache::PlanCache;
pub use compile::{
    NO_SLOT, client_channel, compile, compile_part, compile_partial, ordered, simplified,
    with_client_channels,
};
pub use error::{SessionError, failed, memory, memory_of_step, panicked};
pub use gpu_work::{GpuWork, OpWork};
pub use kernels::{Kernels, find};
pub use machine::Machine;
pub use options::{Parallel, PlanOptions};
pub use placements::Placements;
pub use plan::{Arrival, Channel, FetchPlan, HostedNode, Plan};
pub use program::{Action, Dependents, Home, Instruction, Program, SlotPlan};
pub use request::{Fetch, PlanContext, Request, check_request, partial_feed_facts};
pub use store::{SessionState, Store};
pub use task_part::{TaskChannel, TaskPart, TaskPartition};
pub use task_partitioner::TaskPartitioner;
pub use wire_dtype::{Edge, Wire, WireType};
