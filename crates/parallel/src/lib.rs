//! Data parallelism: one model on several devices of a process, or on the tasks of a cluster.
//!
//! A *tower* is a copy of the model on one device, with a part of the batch. [`DataParallel`] builds the towers of this
//! process, reduces their gradients, and updates the variables, in one of the modes of tf_cnn_benchmarks'
//! `variable_update`:
//!
//! | [`VariableUpdate`] | variables | what crosses in a step |
//! | --- | --- | --- |
//! | `Independent` | a set for each tower | nothing |
//! | `ParameterServer` | one set, on a device of the process or on servers | values to the towers, gradients back |
//! | `Replicated` | a set for each tower | gradients: an all-reduce between the towers |
//! | `DistributedReplicated` | a set for each tower, and one on servers | the mean of the towers' gradients to the servers, values back |
//! | `Horovod` | a set for each tower of each rank of a job | gradients: an all-reduce over all ranks |
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_layers::{Layer, dense};
//! use thalweg_ops::{MathOps, NewGraph, ReduceOps, SourceOps};
//! use thalweg_parallel::{DataParallel, VariableUpdate};
//! use thalweg_session::{Feeding, Session, SessionOptions};
//! use thalweg_tensor::DType;
//! use thalweg_optim::GradientDescent;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let g = Graph::new();
//! let x = g.placeholder("x", DType::F32, [8, 2]);
//! let training = DataParallel::new(VariableUpdate::Replicated)
//!     .towers(2)
//!     .build(&g, |_step| GradientDescent::new(0.1), |tower| {
//!         let part = tower.part(x);
//!         (dense(1).on(part) - 1.0).square().mean()
//!     })?;
//!
//! let session = Session::with_options(&g, SessionOptions::new().cpus(2))?;
//! training.initialize(&session)?;
//! for _ in 0..20 {
//!     session.run(training.step, [x.feed([[1.0f32, 0.0]; 8])])?;
//! }
//! let loss: f32 = session.run(training.loss, [x.feed([[1.0f32, 0.0]; 8])])?;
//! assert!(loss < 1e-3);
//! # Ok(())
//! # }
//! ```
//!
//! Gradients are averaged over all towers, so that the learning rate does not depend on their number.
//! tf_cnn_benchmarks adds them up in the modes with replicas: see [`Reduction`].

mod build;
mod build_towers;
mod error;
mod exchange;
mod loss_scale;
mod mode;
mod options;
mod parse_mode;
mod placement;
mod process;
mod recipe;
mod run;
mod shadows;
mod staging;
mod tower;
mod training;
mod update;

pub use error::ParallelError;
pub use exchange::{Algorithm, AllReduce, Topology};
pub use loss_scale::LossScale;
pub use mode::{ParameterDevice, Reduction, ServerPlacement, Task, VariableUpdate};
pub use options::DataParallel;
pub use placement::server_variables;
pub use process::Process;
pub use recipe::Decay;
pub use run::TrainingRun;
pub use tower::Tower;
pub use training::Training;
