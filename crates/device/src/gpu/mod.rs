//! GPUs: their work as data, and the interface of the drivers that run it. A kernel of a GPU does not compute: it
//! returns the functions to launch, with threads and arguments, and everything else (memory, order, capture) follows
//! from that. So the same kernel can be run by a driver, by an emulation on the CPU, or recorded by a test.
//!
//! ```
//! use thalweg_device::gpu::{Launch, Source};
//! use thalweg_tensor::DType;
//!
//! static SOURCE: Source = Source { name: "unary", text: "KERNEL(Double, ...) { ... }" };
//!
//! // The launch of a loop over 5000 elements: a thread takes four of them.
//! let launch = Launch::over(5000, &SOURCE, "Double", &[DType::F32]).input(0).output(0);
//! assert_eq!((launch.blocks, launch.threads), (5, 256));
//! assert_eq!(launch.function.macros(), ["T_TYPE=f32", "T_FLOAT=1"]);
//! ```

mod address;
mod call;
mod collective;
mod communicator;
mod communicators;
mod device;
mod driver;
mod error;
mod launch;
mod launches;
mod planning;
#[cfg(test)]
mod tests;
mod turns;

pub use address::{ALIGNMENT, Address, Handle};
pub use call::{
    Algorithm, Call, Convolution, Direction, Engine, Gemm, LibraryStep, ReadyCall, WithLibraries,
};
pub use collective::{GpuCollective, GpuCollectiveKind};
pub use communicator::Communicator;
pub use communicators::{Communicators, KeepWaiting};
pub use device::{Block, Gpu, Graph, HostBlock};
pub use driver::{Arguments, Command, Driver};
pub use error::GpuError;
pub use launch::{Arg, Function, Launch, Source, THREADS};
pub use launches::{Fault, Launches};
pub use planning::PlanningDriver;
pub use turns::{Turn, Turns};
