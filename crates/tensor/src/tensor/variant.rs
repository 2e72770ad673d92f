//! Variants that hold values: construction, and the count of the values within.

use std::any::Any;
use std::sync::Arc;

use super::error::TensorError;
use super::nesting::{MAX_NESTED_VALUES, MAX_NESTING_DEPTH, Nesting};
use super::value::{Data, Handle, Tensor};
use crate::dtype::DType;
use crate::shape::Dims;

impl Nesting {
    /// Counts a value that a variant holds.
    ///
    /// # Errors
    /// [`TensorError::Held`] for the handle of a resource: a resource could hold the variant again.
    pub fn add(&mut self, value: &Tensor) -> Result<(), TensorError> {
        value.check_can_be_held()?;
        let within = value.nesting();
        self.depth = self.depth.max(within.depth);
        self.values = self.values.saturating_add(1).saturating_add(within.values);
        Ok(())
    }
}

impl Tensor {
    /// A scalar tensor that holds an object with these values within.
    ///
    /// # Errors
    /// [`TensorError::Nested`] if there are more than 2^24 values, or they are nested deeper than
    /// 64.
    pub fn variant(
        object: Arc<dyn Any + Send + Sync>,
        values: Nesting,
    ) -> Result<Tensor, TensorError> {
        let nesting = Nesting {
            depth: values.depth.saturating_add(1),
            ..values
        };
        if nesting.depth > MAX_NESTING_DEPTH || nesting.values > MAX_NESTED_VALUES {
            return Err(TensorError::Nested {
                depth: nesting.depth,
                values: nesting.values,
            });
        }
        Ok(Tensor {
            dtype: DType::Variant,
            dims: Dims::new(),
            data: Data::Handle(Handle { object, nesting }),
        })
    }

    /// The nesting of the values within; the default for a tensor that holds none.
    pub fn nesting(&self) -> Nesting {
        match &self.data {
            Data::Handle(handle) => handle.nesting,
            Data::Bytes(_) | Data::Strings(_) => Nesting::default(),
        }
    }

    /// Checks that another value, or a resource, may hold this one.
    ///
    /// # Errors
    /// [`TensorError::Held`] for the handle of a resource, which could come to hold itself.
    pub fn check_can_be_held(&self) -> Result<(), TensorError> {
        match self.dtype {
            DType::Resource => Err(TensorError::Held),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(values: &[&Tensor]) -> Result<Tensor, TensorError> {
        let mut nesting = Nesting::default();
        values.iter().try_for_each(|v| nesting.add(v))?;
        let held: Vec<Tensor> = values.iter().map(|v| (*v).clone()).collect();
        Tensor::variant(Arc::new(held), nesting)
    }

    #[test]
    fn nesting_of_variants_is_bounded() {
        let mut value = Tensor::from(1.0f32);
        let deep = loop {
            value = match around(&[&value]) {
                Ok(value) => value,
                Err(error) => break error,
            };
        };
        assert_eq!(value.nesting().depth, MAX_NESTING_DEPTH);
        assert!(deep.to_string().contains("65 deep"), "{deep}");
    }

    #[test]
    fn values_that_are_shared_count_each_time() {
        let mut value = Tensor::from(1.0f32);
        let many = loop {
            value = match around(&[&value, &value]) {
                Ok(value) => value,
                Err(error) => break error,
            };
        };
        assert!(value.nesting().depth < 25);
        assert!(matches!(many, TensorError::Nested { values, .. } if values > MAX_NESTED_VALUES));
    }

    #[test]
    fn a_resource_cannot_be_held_by_a_value() {
        let resource = Tensor::handle(DType::Resource, Arc::new(())).unwrap();
        assert_eq!(around(&[&resource]).unwrap_err(), TensorError::Held);
    }
}
