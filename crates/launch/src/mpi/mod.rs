//! Jobs that `mpirun` or `srun` starts: ranks, or servers and workers.
//!
//! `mpirun` starts a member on each slot: `thalweg launch member`. It knows its rank by MPI's variables, takes its task from a
//! table in its environment, and becomes the program of the task.
//!
//! A member dies with its parent, so that nothing is left on a host whose `mpirun` or daemon is killed.

mod hydra;
mod job;
mod kind;
mod line;
mod member;
mod table;
#[cfg(test)]
mod tests;

pub use job::{MpiJob, MpiOptions, MpiPlan};
pub use kind::MpiKind;
pub use member::run_member;
