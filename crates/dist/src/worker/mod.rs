//! One task's side of steps: the parts that it was handed, and how they run.

pub(crate) mod completion;
mod incarnation;
mod receive;
pub(crate) mod registered_part;
mod registration;
pub(crate) mod run;
mod run_once;
pub(crate) mod service;
mod stamps;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod turns;
