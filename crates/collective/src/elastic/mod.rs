//! Jobs whose ranks come and go: in rounds, each of which is a job of a fixed number of ranks.
//!
//! A *worker* is a process. A *round* gives some of the workers ranks and a [`Coordinator`](crate::Coordinator) of their
//! own; it ends when a rank is lost, or when its ranks agree to let others in. Each worker then says that it is ready, and
//! the [`Driver`], in the launcher, begins the next round.
//!
//! [`Roster`] decides who takes part. It knows no clock and no network, so simulations can run it.

mod driver;
mod roster;
mod worker;

pub use driver::Driver;
pub use roster::{Change, Limits, Roster};
pub use worker::{Place, Worker};
