//! Tensors of handles: construction, elements, and the form that another value may hold.

use std::any::Any;
use std::sync::Arc;

use super::error::TensorError;
use super::handles::{Handle, HandleArray, Handles, Object};
use super::nesting::Nesting;
use super::value::{Data, Tensor};
use crate::buffer::Memory;
use crate::dtype::DType;
use crate::reservation::Reservation;
use crate::shape::{Dims, checked_elements};

impl Tensor {
    /// A tensor of these elements, which are scalar tensors of this dtype: resources, or variants.
    /// It counts against `memory`, if that is given.
    ///
    /// # Errors
    /// [`TensorError::Bytes`] if an element is no handle of this dtype, [`TensorError::Length`] if
    /// their number does not match `dims`, [`TensorError::TooLarge`] if there is no memory for
    /// them, [`TensorError::Nested`] if there are too many values within.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use thalweg_tensor::{DType, Tensor};
    ///
    /// let queue = Tensor::handle(DType::Resource, Arc::new("a queue"))?;
    /// let other = Tensor::handle(DType::Resource, Arc::new("another"))?;
    /// let both = Tensor::handles(DType::Resource, &[2], [queue, other.clone()], None)?;
    /// assert_eq!(both.handle_at(1), Some(other));
    /// # Ok::<(), thalweg_tensor::TensorError>(())
    /// ```
    pub fn handles(
        dtype: DType,
        dims: &[usize],
        elements: impl IntoIterator<Item = Tensor>,
        memory: Option<&Arc<Memory>>,
    ) -> Result<Tensor, TensorError> {
        let too_large = || TensorError::TooLarge {
            dtype,
            dims: dims.into(),
        };
        let expected = checked_elements(dims).ok_or_else(too_large)?;
        let (mut all, mut taken) = (Vec::new(), Reservation::of(memory));
        let bytes = expected.checked_mul(size_of::<Handle>());
        let may = expected == 1 || bytes.is_some_and(|bytes| taken.grow(bytes));
        if !may || all.try_reserve_exact(expected).is_err() {
            return Err(too_large());
        }
        let (mut nesting, mut found) = (Nesting::default(), 0);
        for element in elements {
            found += 1;
            match element.data {
                Data::Handles(Handles::One(handle)) if element.dtype == dtype => {
                    nesting.depth = nesting.depth.max(handle.nesting.depth);
                    let values = nesting.values.saturating_add(handle.nesting.values);
                    nesting.values = values.saturating_add(u64::from(expected != 1));
                    if found <= expected {
                        all.push(handle);
                    }
                }
                _ => return Err(TensorError::Bytes { dtype }),
            }
        }
        if found != expected {
            return Err(TensorError::Length {
                dims: dims.into(),
                expected,
                found,
            });
        }
        nesting.check()?;
        let data = match all.pop() {
            Some(handle) if all.is_empty() => Handles::One(handle),
            last => {
                all.extend(last);
                Handles::Many(Arc::new(HandleArray {
                    all,
                    nesting,
                    _taken: taken,
                }))
            }
        };
        Ok(Tensor {
            dtype,
            dims: Dims::from_slice(dims),
            data: Data::Handles(data),
        })
    }

    /// The element of a resource or variant tensor at a place in row-major order, as a scalar.
    pub fn handle_at(&self, i: usize) -> Option<Tensor> {
        let Data::Handles(handles) = &self.data else {
            return None;
        };
        let handle = handles.all().get(i)?.clone();
        Some(Tensor {
            dtype: self.dtype,
            dims: Dims::new(),
            data: Data::Handles(Handles::One(handle)),
        })
    }

    /// The object of a resource or variant tensor with one element, if it is a `T` and exists.
    pub fn object<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        match &self.data {
            Data::Handles(Handles::One(handle)) => handle.object()?.downcast().ok(),
            _ => None,
        }
    }

    /// `true` for a resource tensor with one element whose object exists no more.
    pub fn is_dangling(&self) -> bool {
        matches!(&self.data, Data::Handles(Handles::One(handle)) if handle.object().is_none())
    }

    /// The same value for something that holds values: handles of resources in it do not keep their
    /// objects alive. `keep` gets each object that this one has owned.
    ///
    /// # Errors
    /// As [`Tensor::handles`].
    pub fn into_weak(self, keep: &mut dyn FnMut(Object)) -> Result<Tensor, TensorError> {
        let owned = self.check_can_be_held().is_err();
        match self.data {
            Data::Handles(handles) if owned => {
                let data = match handles {
                    Handles::One(handle) => Handles::One(handle.into_weak(keep)),
                    Handles::Many(array) => {
                        let weak = array.all.iter().map(|h| h.clone().into_weak(keep));
                        Handles::Many(Arc::new(HandleArray {
                            all: weak.collect(),
                            nesting: array.nesting,
                            _taken: array._taken.try_clone().ok_or_else(|| {
                                TensorError::TooLarge {
                                    dtype: self.dtype,
                                    dims: self.dims.clone(),
                                }
                            })?,
                        }))
                    }
                };
                Ok(Tensor {
                    data: Data::Handles(data),
                    ..self
                })
            }
            _ => Ok(self),
        }
    }

    /// Checks that another value, or a resource, may hold this one.
    ///
    /// # Errors
    /// [`TensorError::Held`] for handles that own resources, which could come to hold themselves:
    /// [`Tensor::into_weak`] makes others of them.
    pub fn check_can_be_held(&self) -> Result<(), TensorError> {
        match &self.data {
            Data::Handles(handles)
                if self.dtype == DType::Resource && handles.all().iter().any(Handle::is_owned) =>
            {
                Err(TensorError::Held)
            }
            _ => Ok(()),
        }
    }

    /// The nesting of the values within; the default for a tensor that holds none.
    pub fn nesting(&self) -> Nesting {
        match &self.data {
            Data::Handles(handles) => handles.nesting(),
            Data::Bytes(_) | Data::Strings(_) => Nesting::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(object: &'static str) -> Tensor {
        Tensor::handle(DType::Resource, Arc::new(object)).unwrap()
    }

    #[test]
    fn handles_are_elements_of_tensors_of_any_shape() {
        let (a, b) = (resource("a"), resource("b"));
        let dims = [2, 1];
        let both = Tensor::handles(DType::Resource, &dims, [a.clone(), b.clone()], None).unwrap();
        assert_eq!((both.dims(), both.len()), (&dims[..], 2));
        assert_eq!(both.handle_at(0), Some(a.clone()));
        assert_eq!(both.handle_at(1), Some(b));
        assert_eq!((both.handle_at(2), both.object::<&str>()), (None, None));
        assert_eq!(both.reshaped(&[2]).unwrap().handle_at(0), Some(a.clone()));
        let one = Tensor::handles(DType::Resource, &[1], [a.clone()], None).unwrap();
        assert_eq!(one.object::<&str>().as_deref(), Some(&"a"));
        let none = Tensor::handles(DType::Variant, &[0, 3], [], None).unwrap();
        assert_eq!((none.len(), none.dims()), (0, &[0, 3][..]));

        let few = Tensor::handles(DType::Resource, &[2], [a.clone()], None);
        assert!(matches!(few, Err(TensorError::Length { .. })));
        for other in [Tensor::from(1.0f32), both] {
            let other = Tensor::handles(DType::Resource, &[1], [other], None);
            assert!(matches!(other, Err(TensorError::Bytes { .. })));
        }
        let other = Tensor::handles(DType::Variant, &[1], [a], None);
        assert!(matches!(other, Err(TensorError::Bytes { .. })));
    }

    #[test]
    fn handles_count_against_their_memory() {
        let memory = Arc::new(Memory::new(Some(10 * size_of::<Handle>())));
        let many = |n: usize| {
            let all = vec![resource("a"); n];
            Tensor::handles(DType::Resource, &[n], all, Some(&memory))
        };
        let ten = many(10).unwrap();
        assert_eq!(memory.used(), ten.byte_size());
        drop(ten);
        assert_eq!(memory.used(), 0);
        assert!(matches!(many(11), Err(TensorError::TooLarge { .. })));
    }

    #[test]
    fn values_within_many_handles_are_bounded() {
        let mut nesting = Nesting::default();
        (0..100).for_each(|_| nesting.add(&Tensor::from(1.0f32)).unwrap());
        let mut value = Tensor::variant(Arc::new(()), nesting).unwrap();
        let error = loop {
            let (all, within) = (vec![value.clone(); 100], value.nesting().values);
            let tensor = match Tensor::handles(DType::Variant, &[100], all, None) {
                Ok(tensor) => tensor,
                Err(error) => break error,
            };
            assert_eq!(tensor.nesting().values, 100 * (within + 1));
            let mut nesting = Nesting::default();
            nesting.add(&tensor).unwrap();
            value = Tensor::variant(Arc::new(tensor), nesting).unwrap();
        };
        assert!(matches!(error, TensorError::Nested { .. }), "{error}");
    }

    #[test]
    fn a_weak_handle_does_not_keep_its_object() {
        let (a, b) = (resource("a"), resource("b"));
        let both = Tensor::handles(DType::Resource, &[2], [a.clone(), b.clone()], None).unwrap();
        let mut kept = Vec::new();
        for owned in [a.clone(), both] {
            assert_eq!(owned.check_can_be_held(), Err(TensorError::Held));
            let weak = owned.clone().into_weak(&mut |object| kept.push(object));
            let weak = weak.unwrap();
            assert_eq!((weak.check_can_be_held(), &weak), (Ok(()), &owned));
            let again = weak.clone().into_weak(&mut |_| panic!("it owns nothing"));
            assert_eq!(again.unwrap(), weak);
        }
        assert_eq!(kept.len(), 3);
        let weak = a.into_weak(&mut drop).unwrap();
        assert!(!weak.is_dangling() && weak.object::<&str>().is_some());
        drop(kept);
        assert!(weak.is_dangling() && weak.object::<&str>().is_none());
        assert!(!b.is_dangling());
    }
}
