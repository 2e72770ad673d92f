//! Discrete-event core: activities that wait for each other and for resources, in simulated time.
//!
//! An activity becomes ready when all that it waits for are done. A serial resource runs ready activities one after the other, in
//! the order in which they become ready. A shared resource runs all of them at once, each slower when there are more than it has
//! room for. A message occupies two ports, that of its sender and that of its receiver.
//!
//! ```
//! use thalweg_simulate::events::{Simulation, Work};
//!
//! let mut simulation = Simulation::default();
//! let gpu = simulation.serial("gpu");
//! let (out, into) = (simulation.serial("out"), simulation.serial("in"));
//! let forward = simulation.add(Work::Run { on: gpu, seconds: 2.0 }, &[]);
//! let message = simulation.add(Work::Message { out, into, seconds: 1.0, latency: 0.5 }, &[forward]);
//! let _ = simulation.add(Work::Run { on: gpu, seconds: 1.0 }, &[forward]);
//! let outcome = simulation.run();
//! assert_eq!((outcome.end(message), outcome.seconds()), (3.5, 3.5));
//! ```

mod event_loop;
mod ids;
mod outcome;
mod resource;
mod simulation;
#[cfg(test)]
mod tests;

pub use ids::{ActivityId, ResourceId};
pub use outcome::{Blocker, Outcome};
pub use simulation::{Simulation, Work};
