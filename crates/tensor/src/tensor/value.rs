//! `Tensor`: dtype, dimensions and shared elements; access to the elements.

use std::sync::Arc;

use super::error::TensorError;
use super::handles::Handles;
use super::storage::StringStorage;
use super::string_list::Strings;
use crate::buffer::{Buffer, Memory};
use crate::dtype::{DType, Element};
use crate::shape::{Dims, Shape, checked_elements};

#[derive(Clone)]
pub(super) enum Data {
    Bytes(Arc<Buffer>),
    Strings(Arc<StringStorage>),
    Handles(Handles),
}

/// A value: dtype, dimensions and elements in row-major order.
///
/// Cloning shares the elements; shared elements are never written.
///
/// Most functions that take a tensor also take a number, an array or a `Vec`.
///
/// ```
/// use thalweg_tensor::{DType, Tensor};
///
/// let matrix = Tensor::new(&[2, 3], &[1, 2, 3, 4, 5, 6])?;
/// assert_eq!((matrix.dtype(), matrix.dims()), (DType::I32, &[2, 3][..]));
/// assert_eq!(matrix.as_slice::<i32>()?[4], 5);
///
/// let mut flat = matrix.reshaped(&[6])?;
/// // The elements are shared until one of the two is written.
/// flat.as_mut_slice::<i32>()?[0] = 9;
/// assert_eq!(matrix.to_vec::<i32>()?[0], 1);
///
/// let number: Tensor = 0.5f32.into();
/// assert_eq!(number.to_scalar::<f32>()?, 0.5);
/// assert!(number.to_scalar::<f64>().is_err());
/// # Ok::<(), thalweg_tensor::TensorError>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    pub(super) dtype: DType,
    pub(super) dims: Dims,
    pub(super) data: Data,
}

impl Tensor {
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
            Data::Strings(s) => s.ends.len(),
            Data::Handles(h) => h.all().len(),
        }
    }

    /// `true` if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements.
    ///
    /// # Errors
    /// [`TensorError::DType`] if they are not `T`.
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

    /// The elements for writing: copied first if they are shared.
    ///
    /// # Errors
    /// [`TensorError::DType`] if they are not `T`, [`TensorError::TooLarge`] if there is no memory
    /// for the copy.
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

    /// `true` if the elements are plain bytes without another holder, so that they can be written
    /// in place.
    pub fn is_alone(&mut self) -> bool {
        match &mut self.data {
            Data::Bytes(b) => Buffer::get_mut(b).is_some(),
            Data::Strings(_) | Data::Handles(_) => false,
        }
    }

    /// A tensor of the same dtype, dimensions and memory to write in place of this one, with
    /// arbitrary elements; `None` if this one's elements have no other holder, so that they can be
    /// written in place.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if there is no memory for it, [`TensorError::Bytes`] if elements
    /// are not plain bytes.
    pub fn successor(&mut self) -> Result<Option<Tensor>, TensorError> {
        if self.is_alone() {
            return Ok(None);
        }
        let Data::Bytes(b) = &self.data else {
            return Err(TensorError::Bytes { dtype: self.dtype });
        };
        Self::any_by(self.dtype, &self.dims, |_| b.try_same_size()).map(Some)
    }

    /// The byte strings of a string tensor.
    ///
    /// # Errors
    /// [`TensorError::DType`] for another dtype.
    pub fn as_strings(&self) -> Result<Strings<'_>, TensorError> {
        match &self.data {
            Data::Strings(s) => Ok(s.view()),
            Data::Bytes(_) | Data::Handles(_) => Err(TensorError::DType {
                asked: DType::String,
                found: self.dtype,
            }),
        }
    }

    /// The only element.
    ///
    /// # Errors
    /// [`TensorError::NotScalar`] unless there is exactly one, [`TensorError::DType`] if it is not
    /// a `T`.
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
    /// [`TensorError::DType`] if they are not `T`.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, TensorError> {
        Ok(self.as_slice::<T>()?.to_vec())
    }

    /// The elements of a tensor of i16, i32 or i64 as `i64`; `None` for any other dtype.
    pub fn to_ints(&self) -> Option<Vec<i64>> {
        match self.dtype {
            DType::I32 => Some(
                self.as_slice::<i32>()
                    .ok()?
                    .iter()
                    .map(|&v| v.into())
                    .collect(),
            ),
            DType::I16 => Some(
                self.as_slice::<i16>()
                    .ok()?
                    .iter()
                    .map(|&v| v.into())
                    .collect(),
            ),
            DType::I64 => self.to_vec().ok(),
            _ => None,
        }
    }

    /// The elements as bytes; empty if elements are not plain bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(b) => b.bytes(),
            Data::Strings(_) | Data::Handles(_) => &[],
        }
    }

    /// The buffer of the elements, to share; `None` for strings.
    pub fn buffer(&self) -> Option<&Arc<Buffer>> {
        match &self.data {
            Data::Bytes(b) => Some(b),
            Data::Strings(_) | Data::Handles(_) => None,
        }
    }

    /// The same value in another memory: copied, except strings, which no device holds.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if the memory's limit does not allow it.
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
    /// [`TensorError::Length`] if the number of elements differs.
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

impl PartialEq for Tensor {
    /// Compares dtype, dimensions and bytes: a NaN equals itself, and 0.0 is not -0.0.
    fn eq(&self, other: &Tensor) -> bool {
        self.dtype == other.dtype
            && self.dims == other.dims
            && match (&self.data, &other.data) {
                (Data::Bytes(a), Data::Bytes(b)) => a.bytes() == b.bytes(),
                (Data::Strings(a), Data::Strings(b)) => a.view() == b.view(),
                (Data::Handles(a), Data::Handles(b)) => a == b,
                _ => false,
            }
    }
}

impl Eq for Tensor {}
