//! Errors of adding the nodes of a saver.

use thalweg_graph::GraphError;
use thalweg_tensor::{Shape, TensorError};
use thiserror::Error;

/// Error of adding the nodes. The graph is unchanged.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SaverNodesError {
    /// There is nothing to save.
    #[error("there are no variables to save: make the variables before the saver")]
    NoVariables,
    /// Two variables have one name.
    #[error(
        "two variables are to be saved as '{name}': give one of them another name in the checkpoint"
    )]
    SameName {
        /// The name.
        name: String,
    },
    /// An output is no handle of a variable.
    #[error("'{name}' is to be saved, and {output} is not the handle of a variable")]
    NoVariable {
        /// The name in the checkpoint.
        name: String,
        /// The output.
        output: String,
    },
    /// A slice is no part of its whole.
    #[error(
        "'{name}' of dimensions {dims:?} cannot be saved from a variable of shape {shape} that begins at {begin:?}: it is no part of it"
    )]
    Slice {
        /// The name in the checkpoint.
        name: String,
        /// The variable's shape.
        shape: Shape,
        /// The dimensions of the whole.
        dims: Vec<usize>,
        /// Begin of the variable in it.
        begin: Vec<usize>,
    },
    /// The graph rejects the nodes: it is finalized, for example.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The names are too many for a tensor.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for SaverNodesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
