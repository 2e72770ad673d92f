//! What can go wrong while a kernel is prepared or runs.

use thalweg_graph::{DType, Shape, TensorError};
use thiserror::Error;

/// Why a kernel could not be prepared or did not finish. Who runs it adds the node.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A variable that nothing was assigned to.
    #[error("variable '{variable}' is not initialized: run the graph's initializers first")]
    Uninitialized {
        /// The variable's name.
        variable: String,
    },
    /// A variable whose value has another dtype or shape than the step takes it to have.
    #[error(
        "variable '{variable}' holds {found_dtype}{found}, the step takes it as {expected_dtype}{expected}"
    )]
    Variable {
        /// The variable's name.
        variable: String,
        /// The dtype that was expected.
        expected_dtype: DType,
        /// The shape that was expected.
        expected: Shape,
        /// The dtype of its value.
        found_dtype: DType,
        /// The shape of its value.
        found: Shape,
    },
    /// An element of an input that the op cannot take.
    #[error("input {input}, element {element}: {reason}")]
    Element {
        /// Which input.
        input: usize,
        /// Which of its elements, in row-major order.
        element: usize,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// Inputs whose shapes or values the kernel cannot take.
    #[error("{0}")]
    Invalid(String),
    /// What a GPU cannot do.
    #[error(transparent)]
    Gpu(#[from] crate::gpu::GpuError),
    /// A dtype for which there is no kernel.
    #[error("there is no kernel for {0}: Cast its inputs")]
    DType(DType),
    /// A tensor that cannot be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The kernel asked for an argument that it does not have: a mistake in the kernel.
    #[error("the kernel asked for {0}, which this node does not have: this is a defect in the op")]
    Argument(&'static str),
}
