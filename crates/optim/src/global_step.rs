//! The global step: how many updates a model has seen.

use thalweg_graph::Graph;
use thalweg_ops::{StateOps, Variable};

/// The global step: an untrained `i64` variable called `global_step`, from 0. Optimizers count it
/// up, schedules read it.
#[track_caller]
pub fn create_global_step(graph: &Graph) -> Variable<'_> {
    graph.untrained_variable("global_step", 0i64)
}
