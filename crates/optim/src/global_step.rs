//! The global step: the number of updates of a model.

use thalweg_graph::Graph;
use thalweg_ops::{StateOps, Variable};

/// Creates the global step: an untrained `i64` variable called `global_step`, from 0. Optimizers increment it,
/// schedules read it.
#[track_caller]
pub fn create_global_step(graph: &Graph) -> Variable<'_> {
    graph.untrained_variable("global_step", 0i64)
}
