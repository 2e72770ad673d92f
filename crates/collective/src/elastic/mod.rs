//! Elastic jobs: ranks come and go in rounds, each of which is a job of a fixed number of ranks.
//!
//! A *worker* is a process. A *round* assigns ranks to some of the workers, with a [`Coordinator`](crate::Coordinator) of their
//! own. It ends when a rank is lost, or when its ranks agree to let others in. Each worker then reports that it is ready, and
//! the [`Driver`], in the launcher, begins the next round.
//!
//! [`Roster`] decides which workers take part. It has no clock and no network, so simulations can run it.

mod driver;
mod roster;
mod worker;

pub use driver::Driver;
pub use roster::{Change, ElasticLimits, Roster};
pub use worker::{RoundPlace, Worker};
