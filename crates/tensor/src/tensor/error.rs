//! Errors of tensors.

use thiserror::Error;

use super::nesting::{MAX_NESTED_VALUES, MAX_NESTING_DEPTH};
use crate::dtype::DType;
use crate::shape::{Dims, Shape};
use crate::text::counted;

/// An error in the making or reading of a tensor.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The tensor has another dtype than was requested.
    #[error("the tensor holds {found}, not {asked}: read it as {found}, or Cast it in the graph")]
    DType {
        /// The requested dtype.
        asked: DType,
        /// The tensor's dtype.
        found: DType,
    },
    /// The number of elements does not match the dimensions.
    #[error("shape {shape} needs {}, not {found}", counted(.expected, "element"), shape = Shape::known(.dims))]
    Length {
        /// The requested dimensions.
        dims: Dims,
        /// The number of elements they need.
        expected: usize,
        /// The number that was given.
        found: usize,
    },
    /// A tensor that does not have exactly one element was read as a scalar.
    #[error("a tensor of shape {shape} is not one value: read it as a Vec or a Tensor", shape = Shape::known(.dims))]
    NotScalar {
        /// The tensor's dimensions.
        dims: Dims,
    },
    /// A tensor was read as an array of another length.
    #[error("a tensor of shape {shape} does not have {}", counted(.asked, "element"), shape = Shape::known(.dims))]
    Count {
        /// The length of the array.
        asked: usize,
        /// The tensor's dimensions.
        dims: Dims,
    },
    /// A string that was read as text is not UTF-8.
    #[error("the string is not UTF-8: read it as bytes, with Tensor::as_strings")]
    Utf8,
    /// A value that holds too many others, or too deeply nested ones.
    #[error(
        "the value would hold {}, {depth} deep: there may be {MAX_NESTED_VALUES}, and {MAX_NESTING_DEPTH} deep",
        counted(.values, "value")
    )]
    Nested {
        /// The depth of nested variants.
        depth: u32,
        /// The number of values within.
        values: u64,
    },
    /// A handle that owns a resource in a place where a value or a resource would hold it.
    #[error(
        "a handle that owns its resource cannot be an element of a value, a queue, an array or a stack: make it weak first"
    )]
    Held,
    /// More bytes than the system has.
    #[error("there is no memory for a tensor of {dtype} and shape {shape}", shape = Shape::known(.dims))]
    TooLarge {
        /// The requested dtype.
        dtype: DType,
        /// The requested dimensions.
        dims: Dims,
    },
    /// Bytes that are not a value of the dtype (a bool that is neither 0 nor 1), or a dtype whose
    /// elements are not plain bytes.
    #[error("the given bytes are not {dtype} elements")]
    Bytes {
        /// The requested dtype.
        dtype: DType,
    },
}

/// Prints the message: a program that returns the error from `main` prints this.
impl std::fmt::Debug for TensorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
