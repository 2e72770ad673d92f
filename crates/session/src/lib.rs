//! Sessions: run steps of a graph. The fetches and feeds of a step become a plan once ([`thalweg_plan`]), and the plan
//! runs many times.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, SourceOps};
//! use thalweg_session::{Feeding, Session};
//! use thalweg_tensor::DType;
//!
//! # fn main() -> Result<(), thalweg_session::SessionError> {
//! let g = Graph::new();
//! let x = g.placeholder("x", DType::F32, [-1]);
//! let y = x.square();
//!
//! let session = Session::new(&g)?;
//! let squares: Vec<f32> = session.run(y, [x.feed([1.0f32, 2.0, 3.0])])?;
//! assert_eq!(squares, [1.0, 4.0, 9.0]);
//! # Ok(())
//! # }
//! ```

mod callable;
mod compiled_step;
mod engine;
mod exec;
mod fetch;
mod frame;
mod gpu_frame;
mod gpu_options;
pub mod gradient_check;
mod graph_ref;
mod options;
mod part;
mod run_options;
mod run_over;
mod runner;
mod session;
mod task_channels;
mod trace;

pub use callable::{CallResults, Callable};
pub use engine::Engine;
pub use fetch::{
    Feed, Feeding, FetchList, Fetched, Fetches, FetchesAs, Run, Values, check_numbers,
};
pub use gpu_options::GpuOptions;
pub use graph_ref::GraphRef;
pub use options::{CpuOptions, SessionOptions};
pub use part::{EnteredPart, PartPlan};
pub use run_options::{Cancel, RunOptions};
pub use run_over::InputTimes;
pub use runner::Runner;
pub use session::Session;
pub use task_channels::{Parker, TaskChannels};
/// The errors of sessions. The plan crate defines them, since many of them arise in planning.
pub use thalweg_plan::SessionError;
pub use thalweg_plan::{Fetch, GpuWork, OpWork, Parallel, Store, Wire, WireType};
pub use trace::{Channel, Event, LayerProfile, OpProfile, Profile, Trace, Traffic};
