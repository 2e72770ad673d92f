//! Tensors: values with a dtype and dimensions, in host memory.
//!
//! They stand in this crate because constants and folded values are part of a graph; a device's
//! own buffers are the device crate's.

mod convert;
mod error;
mod show;

use std::any::Any;
use std::sync::Arc;

use crate::buffer::{Buffer, Memory};
use crate::dtype::{DType, Element};
use crate::shape::{Dims, Shape, checked_elements};
pub use error::TensorError;

#[derive(Clone)]
enum Data {
    Bytes(Arc<Buffer>),
    Strings(Arc<[Box<[u8]>]>),
    Handle(Handle),
}

/// What a resource or variant tensor holds: a thing of the runtime's, which is shared.
#[derive(Clone)]
pub struct Handle(pub Arc<dyn Any + Send + Sync>);

impl PartialEq for Handle {
    /// Whether both hold the same thing.
    fn eq(&self, other: &Handle) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

/// A value: dtype, dimensions and elements in row-major order.
///
/// Cloning shares the elements; nothing that is shared is ever written.
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    dims: Dims,
    data: Data,
}

impl Tensor {
    /// A tensor of zeros (of empty strings, of `false`).
    ///
    /// # Errors
    /// [`TensorError::TooLarge`], or [`TensorError::Bytes`] for resources, which hold no value.
    pub fn zeros(dtype: DType, dims: &[usize]) -> Result<Tensor, TensorError> {
        Self::zeros_by(dtype, dims, Buffer::try_zeroed)
    }

    /// As [`Tensor::zeros`], of this memory.
    ///
    /// # Errors
    /// As [`Tensor::zeros`], also where the memory's limit does not allow it.
    pub fn zeros_in(
        dtype: DType,
        dims: &[usize],
        memory: &Arc<Memory>,
    ) -> Result<Tensor, TensorError> {
        Self::zeros_by(dtype, dims, |bytes| Buffer::try_zeroed_in(bytes, memory))
    }

    /// As [`Tensor::zeros_in`], of elements that are whatever they are (of `false`), where others can map
    /// them if they may ([`Buffer::try_any_in`]).
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

    fn any_by(
        dtype: DType,
        dims: &[usize],
        buffer: impl FnOnce(usize) -> Option<Buffer>,
    ) -> Result<Tensor, TensorError> {
        Self::zeros_by(dtype, dims, |bytes| {
            let mut buffer = buffer(bytes)?;
            if dtype == DType::Bool {
                // Whatever is there need not be bools.
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
            DType::String => Data::Strings(vec![Box::from([]); n].into()),
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
    /// [`TensorError::Length`] where their number is not what `dims` needs.
    pub fn new<T: Element>(dims: &[usize], elements: &[T]) -> Result<Tensor, TensorError> {
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
        Ok(Self::filled(dims.into(), elements))
    }

    fn filled<T: Element>(dims: Dims, elements: &[T]) -> Tensor {
        let mut buffer = Buffer::zeroed(size_of_val(elements));
        // SAFETY: an `Element` has no padding, so its bytes may be read.
        let bytes = unsafe {
            std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements))
        };
        buffer.bytes_mut().copy_from_slice(bytes);
        Tensor {
            dtype: T::DTYPE,
            dims,
            data: Data::Bytes(Arc::new(buffer)),
        }
    }

    /// A tensor of no dimensions.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Self::filled(Dims::new(), &[value])
    }

    /// A tensor of one dimension.
    pub fn vector<T: Element>(elements: &[T]) -> Tensor {
        Self::filled(Dims::from_slice(&[elements.len()]), elements)
    }

    /// A tensor of byte strings.
    ///
    /// # Errors
    /// [`TensorError::Length`] where their number is not what `dims` needs.
    pub fn strings<S: AsRef<[u8]>>(dims: &[usize], elements: &[S]) -> Result<Tensor, TensorError> {
        let expected = checked_elements(dims).unwrap_or(usize::MAX);
        if expected != elements.len() {
            return Err(TensorError::Length {
                dims: dims.into(),
                expected,
                found: elements.len(),
            });
        }
        Ok(Tensor {
            dtype: DType::String,
            dims: dims.into(),
            data: Data::Strings(elements.iter().map(|s| s.as_ref().into()).collect()),
        })
    }

    /// A tensor of no dimensions that holds a thing of the runtime's.
    ///
    /// # Errors
    /// [`TensorError::Bytes`] where `dtype` is neither [`DType::Resource`] nor [`DType::Variant`].
    pub fn handle(dtype: DType, thing: Arc<dyn Any + Send + Sync>) -> Result<Tensor, TensorError> {
        match dtype {
            DType::Resource | DType::Variant => Ok(Tensor {
                dtype,
                dims: Dims::new(),
                data: Data::Handle(Handle(thing)),
            }),
            _ => Err(TensorError::Bytes { dtype }),
        }
    }

    /// What a resource or variant tensor holds, where it is a `T`.
    pub fn thing<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        match &self.data {
            Data::Handle(handle) => handle.0.clone().downcast().ok(),
            _ => None,
        }
    }

    /// What a resource or variant tensor holds, taken out of it where it is a `T`: so that who has
    /// it alone may change it.
    pub fn into_thing<T: Any + Send + Sync>(self) -> Option<Arc<T>> {
        match self.data {
            Data::Handle(handle) => handle.0.downcast().ok(),
            _ => None,
        }
    }

    /// A tensor from elements as bytes in this machine's order.
    ///
    /// # Errors
    /// [`TensorError::Length`] (counted in elements), or [`TensorError::Bytes`] where they are no
    /// elements of `dtype`.
    pub fn from_bytes(dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<Tensor, TensorError> {
        Self::from_bytes_in(dtype, dims, bytes, None)
    }

    /// As [`Tensor::from_bytes`], of `memory` if there is one.
    ///
    /// # Errors
    /// As there, and [`TensorError::TooLarge`] where the memory's limit or the system do not allow it.
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

    /// A tensor over a buffer that is shared, without a copy.
    ///
    /// # Errors
    /// As [`Tensor::from_bytes`]; the buffer must have exactly the bytes that are needed.
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

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The dimensions as a [`Shape`].
    pub fn shape(&self) -> Shape {
        Shape::known(&self.dims)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.data {
            Data::Bytes(b) => b.len() / self.dtype.size(),
            Data::Strings(s) => s.len(),
            Data::Handle(_) => 1,
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements.
    ///
    /// # Errors
    /// [`TensorError::DType`] where they are not `T`.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        match &self.data {
            // SAFETY: the buffer is aligned to ALIGNMENT, holds a whole number of elements of
            // `dtype`, and `T` stands for that dtype.
            Data::Bytes(b) if T::DTYPE == self.dtype => Ok(unsafe {
                std::slice::from_raw_parts(b.as_ptr().cast::<T>(), b.len() / size_of::<T>())
            }),
            _ => Err(TensorError::DType {
                asked: T::DTYPE,
                found: self.dtype,
            }),
        }
    }

    /// The elements, to write: copied first where they are shared.
    ///
    /// # Errors
    /// [`TensorError::DType`] where they are not `T`, [`TensorError::TooLarge`] where there is no
    /// memory for the copy.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], TensorError> {
        match &mut self.data {
            Data::Bytes(b) if T::DTYPE == self.dtype => {
                if Buffer::get_mut(b).is_none() {
                    let copy = b.try_clone().ok_or_else(|| TensorError::TooLarge {
                        dtype: self.dtype,
                        dims: self.dims.clone(),
                    })?;
                    *b = Arc::new(copy);
                }
                // SAFETY: as in `as_slice`; the buffer is not shared (just made so), and `&mut
                // self` keeps it from being cloned meanwhile.
                Ok(unsafe {
                    std::slice::from_raw_parts_mut(b.as_ptr().cast::<T>(), b.len() / size_of::<T>())
                })
            }
            _ => Err(TensorError::DType {
                asked: T::DTYPE,
                found: self.dtype,
            }),
        }
    }

    /// Whether nobody else holds the elements, which are plain bytes and can be written as they are.
    pub fn is_alone(&mut self) -> bool {
        match &mut self.data {
            Data::Bytes(b) => Buffer::get_mut(b).is_some(),
            Data::Strings(_) | Data::Handle(_) => false,
        }
    }

    /// A tensor of the same dtype, dimensions and memory to be written in place of this one, whose elements
    /// mean nothing yet; none where nobody else holds this one's elements, which can be written as they are.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] where there is no memory for it, [`TensorError::Bytes`] where elements are
    /// not plain bytes.
    pub fn successor(&mut self) -> Result<Option<Tensor>, TensorError> {
        if self.is_alone() {
            return Ok(None);
        }
        let Data::Bytes(b) = &self.data else {
            return Err(TensorError::Bytes { dtype: self.dtype });
        };
        Self::any_by(self.dtype, &self.dims, |_| b.try_beside()).map(Some)
    }

    /// The byte strings of a string tensor.
    ///
    /// # Errors
    /// [`TensorError::DType`] where it holds something else.
    pub fn as_strings(&self) -> Result<&[Box<[u8]>], TensorError> {
        match &self.data {
            Data::Strings(s) => Ok(s),
            Data::Bytes(_) | Data::Handle(_) => Err(TensorError::DType {
                asked: DType::String,
                found: self.dtype,
            }),
        }
    }

    /// The only element.
    ///
    /// # Errors
    /// [`TensorError::NotScalar`] where there is not exactly one, [`TensorError::DType`] where it
    /// is not a `T`.
    pub fn to_scalar<T: Element>(&self) -> Result<T, TensorError> {
        match self.as_slice::<T>()? {
            [value] => Ok(*value),
            _ => Err(TensorError::NotScalar {
                dims: self.dims.clone(),
            }),
        }
    }

    /// The elements, copied.
    ///
    /// # Errors
    /// [`TensorError::DType`] where they are not `T`.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, TensorError> {
        Ok(self.as_slice::<T>()?.to_vec())
    }

    /// The elements of an integer tensor as `i64`; `None` for any other dtype.
    pub fn to_ints(&self) -> Option<Vec<i64>> {
        match self.dtype {
            DType::I32 => Some(
                self.as_slice::<i32>()
                    .ok()?
                    .iter()
                    .map(|&v| v.into())
                    .collect(),
            ),
            DType::I64 => self.to_vec().ok(),
            _ => None,
        }
    }

    /// The elements as bytes; empty where elements are not plain bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(b) => b.bytes(),
            Data::Strings(_) | Data::Handle(_) => &[],
        }
    }

    /// The buffer of the elements, to share; `None` for strings.
    pub fn buffer(&self) -> Option<&Arc<Buffer>> {
        match &self.data {
            Data::Bytes(b) => Some(b),
            Data::Strings(_) | Data::Handle(_) => None,
        }
    }

    /// The same value in another memory: copied, but for strings, which no device holds.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] where the memory's limit does not allow it.
    pub fn copied_to(&self, memory: &Arc<Memory>) -> Result<Tensor, TensorError> {
        let Data::Bytes(from) = &self.data else {
            return Ok(self.clone());
        };
        let too_large = || TensorError::TooLarge {
            dtype: self.dtype,
            dims: self.dims.clone(),
        };
        let to = Buffer::try_copied(from.bytes(), Some(memory)).ok_or_else(too_large)?;
        Ok(Tensor {
            data: Data::Bytes(Arc::new(to)),
            ..self.clone()
        })
    }

    /// The same elements with other dimensions, shared.
    ///
    /// # Errors
    /// [`TensorError::Length`] where the number of elements differs.
    pub fn reshaped(&self, dims: &[usize]) -> Result<Tensor, TensorError> {
        let expected = checked_elements(dims).unwrap_or(usize::MAX);
        if expected != self.len() {
            return Err(TensorError::Length {
                dims: dims.into(),
                expected,
                found: self.len(),
            });
        }
        Ok(Tensor {
            dims: dims.into(),
            ..self.clone()
        })
    }
}

/// Whether `bytes` are the elements of a `dtype` tensor with these dimensions.
///
/// # Errors
/// [`TensorError::Length`] or [`TensorError::Bytes`].
pub fn check_bytes(dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<(), TensorError> {
    let size = dtype.size();
    if size == 0 || (dtype == DType::Bool && bytes.iter().any(|&b| b > 1)) {
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

impl PartialEq for Tensor {
    /// Same dtype, dimensions and bytes: a NaN equals itself, and 0.0 is not -0.0.
    fn eq(&self, other: &Tensor) -> bool {
        self.dtype == other.dtype
            && self.dims == other.dims
            && match (&self.data, &other.data) {
                (Data::Bytes(a), Data::Bytes(b)) => a.bytes() == b.bytes(),
                (Data::Strings(a), Data::Strings(b)) => a == b,
                (Data::Handle(a), Data::Handle(b)) => a == b,
                _ => false,
            }
    }
}

impl Eq for Tensor {}

#[cfg(test)]
mod tests;
