//! Steps over the tasks of a cluster: sessions on tasks, plans, and runs.

pub(crate) mod link;
mod part_runs;
mod plan;
mod planning;
mod runner;
pub(crate) mod steps;
