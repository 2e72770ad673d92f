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

use thalweg_tensor::{DType, Shape, Tensor, TensorError};
use thiserror::Error;

/// An error of a kernel's preparation or run. The caller adds the node.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A variable that nothing was assigned to.
    #[error("Attempting to use uninitialized value {variable}: run the graph's initializers first")]
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
    /// A variable that another session has replaced by one of another shape.
    #[error(
        "variable '{variable}' of this session was replaced by one of another shape, by the initializer of another \
         session: initialize it here again, or give one of them another container"
    )]
    Retired {
        /// The variable's name.
        variable: String,
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
    /// A table that its initializer has not filled.
    #[error(
        "Table not initialized: run the initializer of table '{table}' first (tf.tables_initializer)"
    )]
    UninitializedTable {
        /// The table's name.
        table: String,
    },
    /// State that does not allow the op: a table that is filled with other entries.
    #[error("{0}")]
    FailedPrecondition(String),
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
    /// There is no memory for so many bytes that a kernel needs beside its outputs.
    #[error(
        "there is no memory for the {bytes} bytes that the op needs beside its results: feed a smaller batch, or raise the memory limit"
    )]
    Memory {
        /// The bytes.
        bytes: usize,
    },
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

impl KernelError {
    /// Input `input` is a handle of another kind than the op takes.
    pub(crate) fn another_handle(input: usize) -> KernelError {
        KernelError::Invalid(format!(
            "input {input} is a handle of another kind than the op takes"
        ))
    }

    /// The reason why the object that an op takes does not stand behind this value of an input.
    pub(crate) fn handle(input: usize, value: &Tensor) -> KernelError {
        if value.is_dangling() {
            return KernelError::NotFound(format!(
                "the resource behind input {input} exists no more: it lived as long as the step or the session that \
                 made it, or it was deleted"
            ));
        }
        if !value.dims().is_empty() {
            return KernelError::Invalid(format!(
                "input {input} must be one handle, a scalar, but has shape {}",
                value.shape()
            ));
        }
        KernelError::another_handle(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::gpu::GpuError;

    #[test]
    fn each_error_says_what_is_wrong_and_what_to_do() {
        let text = || "as it is".to_owned();
        let cases = [
            (
                KernelError::Variable {
                    variable: "w".to_owned(),
                    expected_dtype: DType::F32,
                    expected: Shape::known(&[2]),
                    found_dtype: DType::I64,
                    found: Shape::scalar(),
                },
                "variable 'w' holds i64[], the step takes it as f32[2]",
            ),
            (
                KernelError::Element {
                    input: 1,
                    element: 5,
                    reason: "7 is not below 4".to_owned(),
                },
                "input 1, element 5: 7 is not below 4",
            ),
            (
                KernelError::UninitializedTable {
                    table: "words".to_owned(),
                },
                "Table not initialized: run the initializer of table 'words' first (tf.tables_initializer)",
            ),
            (KernelError::FailedPrecondition(text()), "as it is"),
            (KernelError::OutOfRange(text()), "as it is"),
            (KernelError::Cancelled(text()), "as it is"),
            (KernelError::NotFound(text()), "as it is"),
            (KernelError::Refused(text()), "as it is"),
            (KernelError::Storage(text()), "as it is"),
            (KernelError::Invalid(text()), "as it is"),
            (
                KernelError::Blocked,
                "it waits for what does not come in this step",
            ),
            (KernelError::Stopped, "the step was stopped"),
            (
                KernelError::Function {
                    function: "f".to_owned(),
                    node: "n".to_owned(),
                    op: "Log".to_owned(),
                    origin: "model.rs:7".to_owned(),
                    source: Box::new(KernelError::Stopped),
                },
                "in function 'f', node 'n' (Log), made at model.rs:7: the step was stopped",
            ),
            (
                KernelError::NoRanks,
                "it needs ranks: give the session SessionOptions::collectives",
            ),
            (
                KernelError::Ranks {
                    group: 2,
                    expected: 4,
                    found: 3,
                },
                "its group_size is 4, and group 2 has 3 ranks: give it the number of ranks of its group",
            ),
            (
                KernelError::from(GpuError::NoCommunicators),
                "this GPU does nothing together with those of other processes",
            ),
            (
                KernelError::DType(DType::I8),
                "there is no kernel for i8: Cast its inputs",
            ),
            (
                KernelError::from(TensorError::Utf8),
                "the string is not UTF-8: read it as bytes, with Tensor::as_strings",
            ),
            (
                KernelError::Argument("a counter"),
                "the kernel asked for a counter, which this node does not have: this is a defect in the op",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
