//! Tests of clusters whose tasks are servers of this process.

mod checkpoints;
mod flow;
mod golden_graphs;
mod losses;
mod parallel;
mod sessions;
mod steps;
mod sync;
mod tasks;
