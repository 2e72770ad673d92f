//! Plans and runs: what is fetched and fed becomes a plan once, and the plan runs many times.

mod cache;
mod callable;
mod costs;
mod error;
mod exec;
mod fetch;
mod frame;
mod options;
mod place;
pub mod plan;
mod session;
mod store;
mod trace;

pub use callable::{Callable, Called};
pub use costs::StepCosts;
pub use error::SessionError;
pub use fetch::{Feed, Feeding, FetchList, Fetched, Fetches};
pub use options::{Cancel, CpuOptions, GpuOptions, Parallel, RunOptions, SessionOptions};
pub use session::Session;
pub use store::Store;
pub use trace::{Event, Trace, Traffic};
