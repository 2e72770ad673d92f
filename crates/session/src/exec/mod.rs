//! The executor: runs a plan in sequence on one thread, or its instructions as they become ready on several.

mod arrivals;
mod call;
mod instruction;
mod on_gpu;
mod parallel;
mod program_run;
pub(crate) mod region;
mod repeat;
mod results;
mod step;
mod step_environment;
mod values;
pub(crate) mod waiting;

pub(crate) use program_run::ProgramRun;
pub(crate) use step::{KeptObjects, Step, StepControls};
pub(crate) use values::copy;
pub(crate) use waiting::Tickets;
