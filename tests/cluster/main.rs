//! Tests of clusters whose tasks are servers of this process.

mod flow;
mod golden_graphs;
mod losses;
mod sessions;
mod steps;
mod sync;
mod tasks;
