//! Tests of clusters whose tasks are servers of this process.

mod checkpoints;
mod control_flow;
mod golden_graphs;
mod lost_tasks;
mod parallel;
mod partitioned_steps;
mod sessions;
mod simulated_steps;
mod split_calls;
mod step_options;
mod synchronous;
