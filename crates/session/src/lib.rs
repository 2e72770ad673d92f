//! Sessions run plans: what is fetched and fed becomes a plan once ([`thalweg_plan`]), and the plan runs many times.

mod callable;
mod engine;
mod exchange;
mod exec;
mod fetch;
mod frame;
mod gpu_queue;
mod part;
mod ready;
mod run_options;
mod runner;
mod session;
mod trace;

pub use callable::{Callable, Called};
pub use engine::Engine;
pub use exchange::{Exchange, Rest};
pub use fetch::{Feed, Feeding, FetchList, Fetched, Fetches};
pub use part::PartPlan;
pub use run_options::{Cancel, RunOptions};
pub use runner::Runner;
pub use session::Session;
pub use thalweg_plan::{
    CpuOptions, Fetch, GpuOptions, Parallel, SessionError, SessionOptions, Store, Wire, WireType,
};
pub use trace::{Event, Trace, Traffic};
