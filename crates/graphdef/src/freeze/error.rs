//! Errors of freezing.

use thalweg_tensor::{DType, Shape};
use thiserror::Error;

use crate::export::ExportError;

/// The reason why a graph could not be frozen.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum FreezeError {
    /// An output that the graph does not have.
    #[error("{output} is no output of the graph that is to be frozen")]
    NoOutput {
        /// Its name.
        output: String,
    },
    /// No outputs.
    #[error("no outputs are named: a frozen graph has what its outputs need, and nothing else")]
    NoOutputs,
    /// An output that depends on an update of a variable.
    #[error(
        "node '{node}' ({op}) updates a variable, and an output needs it: freeze outputs that only read variables"
    )]
    Update {
        /// The node.
        node: String,
        /// Its op.
        op: &'static str,
    },
    /// A use of a variable that has no counterpart for a constant.
    #[error(
        "node '{node}' ({op}) uses a variable in a way that has no form for a constant{}",
        .function.as_ref().map_or(String::new(), |f| format!(": its function '{f}' does"))
    )]
    Use {
        /// The node.
        node: String,
        /// Its op.
        op: &'static str,
        /// The function whose body has the node.
        function: Option<String>,
    },
    /// A variable without a value.
    #[error("there is no value for variable '{variable}': initialize or restore it first")]
    NoValue {
        /// The variable.
        variable: String,
    },
    /// A value that does not match the variable.
    #[error("variable '{variable}' is {dtype}{shape}, and its value is {found_dtype}{found_shape}")]
    Value {
        /// The variable.
        variable: String,
        /// The variable's dtype.
        dtype: DType,
        /// Its shape.
        shape: Shape,
        /// The value's dtype.
        found_dtype: DType,
        /// Its shape.
        found_shape: Shape,
    },
    /// A graph that cannot be stored in a file: for example, one with more than 2 GB of values.
    #[error(transparent)]
    Export(#[from] ExportError),
}

/// Prints the message: a program that returns the error from `main` prints this.
impl std::fmt::Debug for FreezeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
