//! Tests of clusters whose tasks are servers of this process.

mod losses;
mod sessions;
mod steps;
mod sync;
mod tasks;
