//! Encoders of summaries, for programs that have the values at hand: they give the bytes that the summary ops compute.
//!
//! Each function returns a serialized `Summary` (`tensorflow/core/framework/summary.proto`).
//!
//! ```
//! use thalweg_ops::summaries;
//! use thalweg_tensor::Tensor;
//!
//! # fn main() -> Result<(), thalweg_device::KernelError> {
//! let loss = summaries::scalar(b"loss", 0.5);
//! assert_eq!(&loss[4..8], b"loss");
//! let weights = summaries::histogram(b"weights", &Tensor::vector(&[0.1f32, 0.2]))?;
//! assert!(weights.windows(7).any(|w| w == b"weights"));
//! # Ok(())
//! # }
//! ```

use thalweg_cpu::number::Number;
use thalweg_device::KernelError;
use thalweg_tensor::{Tensor, dispatch};

use super::histogram::histogram as spread;

pub use super::image::{BAD_COLOR, image};
use super::wire::{Message, TAG, VALUE};

// Field numbers of a `Summary`, and of its `Value`.
const SIMPLE_VALUE: u32 = 2;
const HISTOGRAM: u32 = 5;

/// Elements of a numeric tensor.
pub(super) fn numbers(tensor: &Tensor) -> Result<Vec<f64>, KernelError> {
    dispatch!(tensor.dtype(), NUMBERS, T => {
        Ok(tensor.as_slice::<T>()?.iter().map(|x| x.to_f64()).collect())
    }, else Err(KernelError::DType(tensor.dtype())))
}

/// Adds a number with its tag to a summary.
pub(super) fn append_scalar(summary: Message, tag: &[u8], value: f32) -> Message {
    let value = Message::default()
        .bytes(TAG, tag)
        .float(SIMPLE_VALUE, value);
    summary.bytes(VALUE, &value.0)
}

/// Summary of a number.
///
/// ```
/// // A value (field 1) of 8 bytes: the tag (field 1) and the number (field 2, a float).
/// let bytes = thalweg_ops::summaries::scalar(b"x", 1.0);
/// assert_eq!(bytes, [0x0a, 8, 0x0a, 1, b'x', 0x15, 0, 0, 0x80, 0x3f]);
/// ```
pub fn scalar(tag: &[u8], value: f32) -> Vec<u8> {
    append_scalar(Message::default(), tag, value).0
}

/// Summary of the distribution of a tensor's numbers, in TensorFlow's buckets: they grow by a tenth
/// from 1e-12 to 1e20, on both sides of zero (`tensorflow/core/lib/histogram/histogram.cc`).
///
/// # Errors
/// [`KernelError::Element`] for a number that is not finite, [`KernelError::DType`] for a tensor that is not
/// numeric.
///
/// ```
/// use thalweg_ops::summaries;
/// use thalweg_tensor::Tensor;
///
/// let error = summaries::histogram(b"w", &Tensor::vector(&[1.0f32, f32::NAN])).unwrap_err();
/// assert!(error.to_string().contains("NaN in the histogram \"w\": it takes finite numbers"));
/// ```
pub fn histogram(tag: &[u8], values: &Tensor) -> Result<Vec<u8>, KernelError> {
    let values = numbers(values)?;
    if let Some(element) = values.iter().position(|v| !v.is_finite()) {
        return Err(KernelError::Element {
            input: 1,
            element,
            reason: format!(
                "{} in the histogram \"{}\": it takes finite numbers",
                values[element],
                tag.escape_ascii()
            ),
        });
    }
    let value = Message::default().bytes(TAG, tag);
    let value = value.bytes(HISTOGRAM, &spread(&values).0);
    Ok(Message::default().bytes(VALUE, &value.0).0)
}
