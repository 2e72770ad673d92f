//! A task's side of steps: registered parts, their runs, and the values between tasks.

pub(crate) mod completion;
mod incarnation;
mod receive;
pub(crate) mod registered_part;
mod registration;
pub(crate) mod run;
mod run_once;
pub(crate) mod service;
pub(crate) mod session_cluster;
mod stamps;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod turns;
