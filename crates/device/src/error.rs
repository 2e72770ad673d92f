//! Errors of kernels.
//!
//! ```
//! use thalweg_device::{KernelError, Variable};
//! use thalweg_tensor::{DType, Shape};
//!
//! let w = Variable::new("w", DType::F32, Shape::from([2]));
//! let error = w.read().unwrap_err();
//! assert!(matches!(&error, KernelError::Uninitialized { variable } if variable == "w"));
//! assert!(error.to_string().contains("run the graph's initializers first"));
//! ```

use thalweg_tensor::{DType, Shape, TensorError};
use thiserror::Error;

/// An error of a kernel's preparation or run. The caller adds the node.
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
        /// Number of the input.
        input: usize,
        /// Number of the element, in row-major order.
        element: usize,
        /// The mistake, and the values that are allowed.
        reason: String,
    },
    /// Something that has come to its end: a queue that is closed and empty.
    #[error("{0}")]
    OutOfRange(String),
    /// Something that was cancelled from outside of the step: a queue that was closed.
    #[error("{0}")]
    Cancelled(String),
    /// The node is blocked: it is to run again when its [`crate::Ticket`] was woken. The executor never returns this
    /// error.
    #[error("it waits for what does not come in this step")]
    Blocked,
    /// The step is over: its time is up, or it was cancelled. The executor returns which.
    #[error("the step was stopped")]
    Stopped,
    /// An error in a function that the node calls.
    #[error("in function '{function}', node '{node}' ({op}), made at {origin}: {source}")]
    Function {
        /// The function.
        function: String,
        /// The node in it.
        node: String,
        /// Its op.
        op: String,
        /// The line that made it.
        origin: String,
        /// The error.
        source: Box<KernelError>,
    },
    /// Something is named that is not there: a tensor in a checkpoint.
    #[error("{0}")]
    NotFound(String),
    /// A file that the session may not use: see [`crate::Files`].
    #[error("{0}")]
    Refused(String),
    /// A file that cannot be read or written, or that is damaged.
    #[error("{0}")]
    Storage(String),
    /// A node that works together with other ranks, in a session that is no rank.
    #[error("it needs ranks: give the session SessionOptions::collectives")]
    NoRanks,
    /// A node that is made for another number of ranks than its group has.
    #[error(
        "its group_size is {expected}, and group {group} has {found} ranks: give it the number of ranks of its group"
    )]
    Ranks {
        /// The group.
        group: i32,
        /// Number of ranks that the node is made for.
        expected: i64,
        /// Number of ranks of the group.
        found: usize,
    },
    /// Inputs whose shapes or values the kernel cannot take.
    #[error("{0}")]
    Invalid(String),
    /// An error of a GPU.
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
