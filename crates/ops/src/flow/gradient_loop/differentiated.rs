//! The loop that a gradient goes through.

use std::sync::Arc;

use thalweg_graph::{Function, Graph, Output, OutputId, Value};
use thalweg_tensor::Tensor;

/// Description of a loop for its gradient.
pub(super) struct Loop<'g> {
    pub(super) body: Arc<Function>,
    pub(super) inputs: Vec<Output<'g>>,
    /// For each value: `true` if an iteration may change it.
    pub(super) changes: Vec<bool>,
    /// For each value: `true` if its gradient may differ from zero.
    pub(super) live: Vec<bool>,
    /// Values that an iteration pushes onto lists: those of its arguments that change and that the gradients need,
    /// and values that cannot be recomputed.
    pub(super) saved: Vec<OutputId>,
}

pub(super) fn int<'g>(graph: &'g Graph, value: i32) -> Output<'g> {
    Value::Tensor(Tensor::scalar(value)).on(graph)
}
