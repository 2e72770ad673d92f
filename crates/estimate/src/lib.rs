//! Cost models: estimates of the time of collectives and of steps, from constants and formulas alone.
//!
//! ```
//! use thalweg_estimate::{Algorithm, LinkCost};
//!
//! let cost = LinkCost::default();
//! assert_eq!(cost.choose(4, 4), Algorithm::Doubling);
//! assert!(cost.of(Algorithm::Ring, 4, 1 << 20) < cost.of(Algorithm::Tree, 4, 1 << 20));
//! ```

mod all_reduce;
mod list_schedule;
mod step;

pub use all_reduce::{Algorithm, LinkCost, UnknownAlgorithm};
pub use list_schedule::ListSchedule;
pub use step::{HANDOFF_NS, PARALLEL_INSTRUCTION_NS, StepEstimate};
