//! Plans and runs: what is fetched and fed becomes a plan once, and the plan runs many times.

mod cache;
mod callable;
mod engine;
mod error;
mod exec;
mod fetch;
mod frame;
mod options;
mod place;
pub mod plan;
mod runner;
mod session;
mod store;
mod tasks;
mod trace;

pub use cache::Plans;
pub use callable::{Callable, Called};
pub use engine::Engine;
pub use error::SessionError;
pub use fetch::{Feed, Feeding, Fetch, FetchList, Fetched, Fetches};
pub use options::{Cancel, CpuOptions, GpuOptions, Parallel, RunOptions, SessionOptions};
pub use runner::Runner;
pub use session::Session;
pub use store::Store;
pub use tasks::{
    Cutter, Edge, Exchange, PartPlan, Rest, TASK_ENDS, TaskChannel, TaskCut, TaskPart, Wire,
    WireType, client_channel,
};
pub use trace::{Event, Trace, Traffic};
