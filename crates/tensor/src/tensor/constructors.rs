//! Constructors of tensors.

use std::any::Any;
use std::sync::Arc;

use super::error::TensorError;
use super::handles::{Handle, Handles};
use super::nesting::Nesting;
use super::value::{Data, Tensor};
use crate::buffer::{Buffer, Memory};
use crate::dtype::{DType, Element};
use crate::shape::{Dims, checked_elements};

impl Tensor {
    /// A tensor of zeros (of empty strings, of `false`).
    ///
    /// # Errors
    /// [`TensorError::TooLarge`], or [`TensorError::Bytes`] for resources, which hold no value.
    pub fn zeros(dtype: DType, dims: &[usize]) -> Result<Tensor, TensorError> {
        Self::zeros_by(dtype, dims, Buffer::try_zeroed)
    }

    /// As [`Tensor::zeros`], in this memory.
    ///
    /// # Errors
    /// As [`Tensor::zeros`], also if the memory's limit does not allow it.
    pub fn zeros_in(
        dtype: DType,
        dims: &[usize],
        memory: &Arc<Memory>,
    ) -> Result<Tensor, TensorError> {
        if dtype == DType::String {
            return Self::empty_strings(dims, Some(memory));
        }
        Self::zeros_by(dtype, dims, |bytes| Buffer::try_zeroed_in(bytes, memory))
    }

    /// As [`Tensor::zeros_in`], with arbitrary contents (`false` for bools), and mappable by other
    /// processes if the memory allows it ([`Buffer::try_any_in`]).
    ///
    /// # Errors
    /// As [`Tensor::zeros_in`].
    pub fn any_in(
        dtype: DType,
        dims: &[usize],
        memory: &Arc<Memory>,
    ) -> Result<Tensor, TensorError> {
        Self::any_by(dtype, dims, |bytes| Buffer::try_any_in(bytes, memory))
    }

    pub(super) fn any_by(
        dtype: DType,
        dims: &[usize],
        buffer: impl FnOnce(usize) -> Option<Buffer>,
    ) -> Result<Tensor, TensorError> {
        Self::zeros_by(dtype, dims, |bytes| {
            let mut buffer = buffer(bytes)?;
            if dtype == DType::Bool {
                // Arbitrary bytes need not be bools.
                buffer.bytes_mut().fill(0);
            }
            Some(buffer)
        })
    }

    fn zeros_by(
        dtype: DType,
        dims: &[usize],
        buffer: impl FnOnce(usize) -> Option<Buffer>,
    ) -> Result<Tensor, TensorError> {
        let too_large = || TensorError::TooLarge {
            dtype,
            dims: dims.into(),
        };
        let n = checked_elements(dims).ok_or_else(too_large)?;
        let data = match dtype {
            DType::Resource | DType::Variant => return Err(TensorError::Bytes { dtype }),
            DType::String => return Self::empty_strings(dims, None),
            _ => {
                let bytes = n.checked_mul(dtype.size()).ok_or_else(too_large)?;
                Data::Bytes(Arc::new(buffer(bytes).ok_or_else(too_large)?))
            }
        };
        Ok(Tensor {
            dtype,
            dims: dims.into(),
            data,
        })
    }

    /// A tensor with these elements, in row-major order.
    ///
    /// # Errors
    /// [`TensorError::Length`] if their number does not match `dims`, [`TensorError::TooLarge`] if
    /// the system has no memory for them.
    pub fn new<T: Element>(dims: &[usize], elements: &[T]) -> Result<Tensor, TensorError> {
        Self::new_in(dims, elements, None)
    }

    /// As [`Tensor::new`], in `memory` if given.
    ///
    /// # Errors
    /// As [`Tensor::new`], also if the memory's limit does not allow it.
    pub fn new_in<T: Element>(
        dims: &[usize],
        elements: &[T],
        memory: Option<&Arc<Memory>>,
    ) -> Result<Tensor, TensorError> {
        let expected = checked_elements(dims).ok_or_else(|| TensorError::TooLarge {
            dtype: T::DTYPE,
            dims: dims.into(),
        })?;
        if expected != elements.len() {
            return Err(TensorError::Length {
                dims: dims.into(),
                expected,
                found: elements.len(),
            });
        }
        let buffer = Buffer::try_copied(bytes_of(elements), memory);
        let buffer = buffer.ok_or_else(|| TensorError::TooLarge {
            dtype: T::DTYPE,
            dims: dims.into(),
        })?;
        Ok(Tensor {
            dtype: T::DTYPE,
            dims: dims.into(),
            data: Data::Bytes(Arc::new(buffer)),
        })
    }

    pub(super) fn filled<T: Element>(dims: Dims, elements: &[T]) -> Tensor {
        let mut buffer = Buffer::zeroed(size_of_val(elements));
        buffer.bytes_mut().copy_from_slice(bytes_of(elements));
        Tensor {
            dtype: T::DTYPE,
            dims,
            data: Data::Bytes(Arc::new(buffer)),
        }
    }

    /// A tensor of rank 0.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Self::filled(Dims::new(), &[value])
    }

    /// A tensor of rank 1.
    pub fn vector<T: Element>(elements: &[T]) -> Tensor {
        Self::filled(Dims::from_slice(&[elements.len()]), elements)
    }

    /// A scalar tensor that holds a runtime object without values of its own; an object with values
    /// within is wrapped by [`Tensor::variant`].
    ///
    /// # Errors
    /// [`TensorError::Bytes`] if `dtype` is neither [`DType::Resource`] nor [`DType::Variant`].
    pub fn handle(dtype: DType, object: Arc<dyn Any + Send + Sync>) -> Result<Tensor, TensorError> {
        match dtype {
            DType::Resource | DType::Variant => Ok(Tensor {
                dtype,
                dims: Dims::new(),
                data: Data::Handles(Handles::One(Handle::owned(object, Nesting::default()))),
            }),
            _ => Err(TensorError::Bytes { dtype }),
        }
    }

    /// A tensor from elements as bytes in this machine's order.
    ///
    /// # Errors
    /// [`TensorError::Length`] (counted in elements), or [`TensorError::Bytes`] if they are not
    /// elements of `dtype`.
    pub fn from_bytes(dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<Tensor, TensorError> {
        Self::from_bytes_in(dtype, dims, bytes, None)
    }

    /// As [`Tensor::from_bytes`], in `memory` if given.
    ///
    /// # Errors
    /// As there, and [`TensorError::TooLarge`] if the memory's limit or the system does not allow
    /// it.
    pub fn from_bytes_in(
        dtype: DType,
        dims: &[usize],
        bytes: &[u8],
        memory: Option<&Arc<Memory>>,
    ) -> Result<Tensor, TensorError> {
        check_bytes(dtype, dims, bytes)?;
        let copy = Buffer::try_copied(bytes, memory);
        let buffer = copy.ok_or_else(|| TensorError::TooLarge {
            dtype,
            dims: dims.into(),
        })?;
        Ok(Tensor {
            dtype,
            dims: dims.into(),
            data: Data::Bytes(Arc::new(buffer)),
        })
    }

    /// A tensor over a shared buffer, without a copy.
    ///
    /// # Errors
    /// As [`Tensor::from_bytes`]; the buffer must have exactly the required bytes.
    pub fn from_buffer(
        dtype: DType,
        dims: &[usize],
        buffer: Arc<Buffer>,
    ) -> Result<Tensor, TensorError> {
        check_bytes(dtype, dims, buffer.bytes())?;
        Ok(Tensor {
            dtype,
            dims: dims.into(),
            data: Data::Bytes(buffer),
        })
    }
}

fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: an `Element` has no padding, so its bytes may be read.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements)) }
}

/// `true` if each byte is 0 or 1. The bits of a block are joined before they are compared, so that the loop has no branch.
fn are_bools(bytes: &[u8]) -> bool {
    let mut blocks = bytes.chunks(4096);
    blocks.all(|block| block.iter().fold(0, |bits, byte| bits | byte) <= 1)
}

/// Checks that `bytes` are the elements of a `dtype` tensor with these dimensions.
///
/// # Errors
/// [`TensorError::Length`] or [`TensorError::Bytes`].
fn check_bytes(dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<(), TensorError> {
    let size = dtype.size();
    if size == 0 || (dtype == DType::Bool && !are_bools(bytes)) {
        return Err(TensorError::Bytes { dtype });
    }
    let expected = checked_elements(dims).unwrap_or(usize::MAX);
    if expected.checked_mul(size) != Some(bytes.len()) {
        return Err(TensorError::Length {
            dims: dims.into(),
            expected,
            found: bytes.len() / size,
        });
    }
    Ok(())
}
