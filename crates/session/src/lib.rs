//! Plans and runs: what is fetched and fed becomes a plan once, and the plan runs many times.

mod callable;
mod error;
mod exec;
mod fetch;
mod frame;
pub mod plan;
mod session;
mod store;
mod trace;

pub use callable::{Callable, Called};
pub use error::SessionError;
pub use fetch::{Feed, Feeding, FetchList, Fetched, Fetches};
pub use session::{RunOptions, Session, SessionOptions};
pub use store::Store;
pub use trace::{Event, Trace};
