//! Values and the memory that holds them: dtypes, shapes, tensors, buffers, shared-memory segments.
//!
//! This crate knows no graph, no op and no device. It is the lowest crate of the workspace.
//!
//! ```
//! use thalweg_tensor::{DType, Tensor};
//!
//! let t = Tensor::new(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
//! assert_eq!((t.dtype(), t.dims()), (DType::F32, &[2, 2][..]));
//! assert_eq!(t.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), thalweg_tensor::TensorError>(())
//! ```

#[macro_use]
mod dispatch;

mod buffer;
pub mod dtype;
mod notes;
mod reservation;
mod segment;
pub mod shape;
pub mod sync;
mod tensor;
pub mod text;

/// The 16-bit floating-point types `f16` and `bf16`.
pub use half;
/// The complex numbers.
pub use num_complex;

pub use buffer::{ALIGNMENT, BUFFER_OVERHEAD, Buffer, MIN_SHARED_BYTES, Memory};
pub use dtype::{DType, Element, Quantized};
pub use notes::Notes;
pub use reservation::Reservation;
pub use segment::SegmentError;
pub use shape::{Dims, Shape};
pub use tensor::{
    FromTensor, Nesting, StringTensorBuilder, Strings, StringsIter, Tensor, TensorError,
};
