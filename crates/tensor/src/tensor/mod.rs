//! Tensors: values with a dtype and dimensions, in host memory.
//!
//! They are in this crate because constants and folded values are part of a graph; a device's own
//! buffers are in the device crate.

#[cfg(feature = "ndarray")]
mod arrays;
mod constructors;
mod convert;
mod display;
mod error;
mod handle_tensors;
mod handles;
mod nesting;
mod read;
mod storage;
mod string_list;
mod strings;
mod value;
mod variant;

pub use error::TensorError;
pub use nesting::Nesting;
pub use read::FromTensor;
pub use string_list::{Strings, StringsIter};
pub use strings::StringTensorBuilder;
pub use value::Tensor;

#[cfg(test)]
mod tests;
