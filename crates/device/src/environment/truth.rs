//! The truth value of a tensor.

use thalweg_tensor::{DType, Tensor};

use crate::error::KernelError;

/// Returns the truth value of a tensor, as If and While take it: a scalar that is not zero, a string or a tensor that is
/// not empty.
///
/// # Errors
/// [`KernelError::DType`] for a handle.
///
/// ```
/// use thalweg_device::is_true;
/// use thalweg_tensor::Tensor;
///
/// assert!(is_true(&Tensor::scalar(0.5f32))?);
/// assert!(!is_true(&Tensor::vector::<i32>(&[]))?);
/// # Ok::<(), thalweg_device::KernelError>(())
/// ```
pub fn is_true(value: &Tensor) -> Result<bool, KernelError> {
    if !value.dims().is_empty() {
        return Ok(!value.is_empty());
    }
    if value.dtype() == DType::String {
        return Ok(value.as_strings()?.first().is_some_and(|s| !s.is_empty()));
    }
    thalweg_tensor::dispatch!(value.dtype(), PLAIN, T => {
        Ok(value.to_scalar::<T>()? != T::default())
    }, else Err(KernelError::DType(value.dtype())))
}
