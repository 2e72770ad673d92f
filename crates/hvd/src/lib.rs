//! Horovod's API: processes that run the same program, each with data of its own, and average their gradients by all-reduce.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_hvd::Hvd;
//! use thalweg_ops::{MathOps, NewGraph, ReduceOps, StateOps};
//! use thalweg_optim::{GradientDescent, Optimizer};
//! use thalweg_session::{Session, SessionOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Under `thalweg launch hvd -np 4` this is one rank of four; without it, the only one.
//! let hvd = Hvd::init()?;
//!
//! let g = Graph::new();
//! let w = g.variable("w", [3.0f32, 4.0]);
//! let loss = w.value().square().sum();
//! let train = hvd.distributed(GradientDescent::new(0.1 * hvd.size() as f32)).minimize(loss);
//! let broadcast = hvd.broadcast_global_variables(&g, 0);
//!
//! let session = Session::with_options(&g, hvd.session(SessionOptions::new()))?;
//! session.run(g.initializers(), [])?;
//! session.run(broadcast, [])?;
//! session.run(train, [])?;
//! assert_eq!(hvd.rank(), 0);
//! # Ok(())
//! # }
//! ```

mod broadcast;
mod calls;
pub mod elastic;
mod error;
mod grouped;
mod hook;
mod optimizer;
mod process_set;
mod ranks;

pub use error::HvdError;
pub use hook::BroadcastGlobalVariablesHook;
pub use optimizer::DistributedOptimizer;
pub use process_set::ProcessSet;
pub use ranks::Hvd;
pub use thalweg_collective::{CollectiveError, Join};
pub use thalweg_device::ReduceOp;
pub use thalweg_optim::{Compression, FUSION_THRESHOLD};

/// `true` if the program was built with MPI: `mpirun` can then start it.
pub fn mpi_built() -> bool {
    cfg!(feature = "mpi")
}

/// `true`: collectives between GPUs use NCCL if it is installed. It is loaded at run time, so every build supports it.
pub fn nccl_built() -> bool {
    true
}

/// `false`: shared memory and TCP take the place of gloo.
pub fn gloo_built() -> bool {
    false
}
