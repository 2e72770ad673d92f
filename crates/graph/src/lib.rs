//! The static graph: dtypes, shapes, tensors, nodes, gradients and passes.
